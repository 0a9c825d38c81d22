package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"

	"go.uber.org/zap"

	"gateway/resources"
)

// operations serve the command line: over HTTP, in the name of the operator who opened the connection.
type operations struct {
	*Operations

	// backups is held by the one backup that is being taken.
	backups sync.Mutex
}

// maxRequest bounds a request's body: documents are at most 4 MiB a file, and a directory is sent file by file.
const maxRequest = 8 << 20

// Problem is the body of an answer that is not 2xx (RFC 9457, in short).
type Problem struct {
	// Reason is a constant of package resources, or empty.
	Reason string `json:"reason,omitempty"`
	// Errors has one line for each fault.
	Errors []string `json:"errors"`
}

func (o *operations) handler() http.Handler {
	mux := http.NewServeMux()

	routes := map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/version":                  o.version,
		"GET /v1/objects/{kind}":           o.list,
		"GET /v1/objects/{kind}/{name}":    o.get,
		"GET /v1/watch/{kind}":             o.watch,
		"GET /v1/describe/{kind}/{name}":   o.describe,
		"GET /v1/journal":                  o.journal,
		"POST /v1/apply":                   o.apply,
		"POST /v1/diff":                    o.diff,
		"DELETE /v1/objects/{kind}/{name}": o.delete,
		"POST /v1/power":                   o.power,
		"POST /v1/restart":                 o.restart,
		"POST /v1/hold":                    o.hold,
		"POST /v1/release":                 o.release,
		"POST /v1/sync":                    o.sync,
		"POST /v1/confirm":                 o.confirm,
		"POST /v1/import":                  o.importDomains,
		"GET /v1/store/backup":             o.backup,
		"GET /v1/console/{vm}":             o.console,
	}
	maps.Copy(routes, o.bridgeRoutes())

	for pattern, handle := range routes {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, bodyLimit(r))
			r = withCaller(r)

			if err := handle(w, r); err != nil {
				o.fail(w, r, err)
			}
		})
	}

	return mux
}

func bodyLimit(r *http.Request) int64 {
	if r.URL.Path == "/v1/diff" {
		return maxDiff
	}

	return maxRequest
}

// errUsage marks what the caller asked for wrongly.
type errUsage struct{ message string }

func (e *errUsage) Error() string { return e.message }

func usage(format string, args ...any) error { return &errUsage{fmt.Sprintf(format, args...)} }

// errNotFound marks an object that is not there.
var errNotFound = errors.New("not found")

// fail answers with the problem that an error is.
func (o *operations) fail(w http.ResponseWriter, r *http.Request, err error) {
	problem, status, expected := ProblemOf(err)
	if !expected {
		o.Logger.Warn("an operation failed", zap.String("operation", r.Method+" "+r.URL.Path), zap.Error(err))
	}

	writeJSON(w, status, problem)
}

// done journals an operator's command, waits until all of it is durable, and answers.
func (o *operations) done(w http.ResponseWriter, r *http.Request, command, object string, answer any) error {
	if err := o.Finish(r.Context(), callerOf(r), command, object); err != nil {
		return err
	}

	writeJSON(w, http.StatusOK, answer)

	return nil
}

// kindOf returns the kind that a path or a body names.
func kindOf(name string) (*resources.Kind, error) {
	kind, ok := resources.LookupKind(name)
	if !ok {
		var names []string
		for _, k := range resources.DeclaredKinds() {
			names = append(names, k.Name)
		}

		return nil, usage("%q is not a kind: use one of %s", name, strings.Join(names, ", "))
	}

	return kind, nil
}

// decode reads a JSON body strictly.
func decode(r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()

	if err := decoder.Decode(into); err != nil {
		return usage("the request can't be read: %s", err)
	}

	return nil
}

// readAll reads a body whole.
func readAll(r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, usage("the request can't be read: %s", err)
	}

	return data, nil
}

// Version is what a gateway says it is.
type Version struct {
	Version   string   `json:"version"`
	ID        string   `json:"id"`
	Documents []string `json:"documents"`
}

func (o *operations) version(w http.ResponseWriter, _ *http.Request) error {
	writeJSON(w, http.StatusOK, Version{Version: o.Version, ID: o.Store.GatewayID(), Documents: o.Documents})

	return nil
}
