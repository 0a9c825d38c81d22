package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// object is an object as `gateway get -o json` prints it: what scripts rely on, and nothing of the gateway's own types.
type object struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name     string            `json:"name"`
		UID      string            `json:"uid"`
		Revision int64             `json:"revision"`
		Labels   map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec   map[string]any `json:"spec"`
	Status status         `json:"status"`
}

// status is what the tests read of the status of any kind.
type status struct {
	State            string      `json:"state"`
	Host             string      `json:"host"`
	DomainUUID       string      `json:"domainUUID"`
	ObservedRevision int64       `json:"observedRevision"`
	LastError        string      `json:"lastError"`
	Cause            string      `json:"cause"`
	Held             bool        `json:"held"`
	RestartRequired  []string    `json:"restartRequired"`
	Conditions       []condition `json:"conditions"`
	Addresses        []struct {
		Address string `json:"address"`
		Source  string `json:"source"`
	} `json:"addresses"`
}

type condition struct {
	Type    string `json:"type"`
	Status  any    `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// condition returns a condition of the status, empty where it has none of this type.
func (s *status) condition(name string) condition {
	for _, c := range s.Conditions {
		if c.Type == name {
			return c
		}
	}

	return condition{}
}

// entry is a line of `gateway events -o json`.
type entry struct {
	Number  uint64    `json:"number"`
	Time    time.Time `json:"time"`
	Class   string    `json:"class"`
	Source  string    `json:"source"`
	Name    string    `json:"name"`
	EventID string    `json:"eventId"`
	Key     string    `json:"key"`
	Object  string    `json:"object"`
	Message string    `json:"message"`
}

// run calls the program as a person does, against this gateway.
func (g *gateway) run(args ...string) (stdout, stderr string, code int) {
	g.t.Helper()

	var out, errs bytes.Buffer

	cmd := exec.Command(binary, args...)
	cmd.Dir = g.dir
	cmd.Env = environment("GATEWAY_SERVER=unix://" + g.path("data/gateway.sock"))
	cmd.Stdout, cmd.Stderr = &out, &errs

	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			require.NoError(g.t, err)
		}
	}

	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// cli calls the program, requires that it succeeds, and returns what it printed.
func (g *gateway) cli(args ...string) string {
	g.t.Helper()

	out, errs, code := g.run(args...)
	require.Equal(g.t, 0, code, "gateway %s: %s", strings.Join(args, " "), errs)

	return out
}

// decode calls the program, requires that it succeeds, and decodes the JSON that it printed.
func (g *gateway) decode(into any, args ...string) {
	g.t.Helper()
	require.NoError(g.t, json.Unmarshal([]byte(g.cli(args...)), into))
}

// get returns one object; an error where there is none yet.
func (g *gateway) get(kind, name string) (object, error) {
	g.t.Helper()

	var o object

	out, errs, code := g.run("get", kind, name, "-o", "json")
	if code != 0 {
		return o, fmt.Errorf("gateway get %s %s: exit code %d: %s", kind, name, code, errs)
	}

	return o, json.Unmarshal([]byte(out), &o)
}

// list returns all objects of a kind by name.
func (g *gateway) list(kind string) (map[string]object, error) {
	g.t.Helper()

	out, errs, code := g.run("get", kind, "-o", "json")
	if code != 0 {
		return nil, fmt.Errorf("gateway get %s: exit code %d: %s", kind, code, errs)
	}

	var list struct {
		Items []object `json:"items"`
	}

	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("gateway get %s: %w", kind, err)
	}

	objects := map[string]object{}
	for _, o := range list.Items {
		objects[o.Metadata.Name] = o
	}

	return objects, nil
}

// running waits until VMs are running, and converged at their current revision.
func (g *gateway) running(names ...string) time.Duration {
	g.t.Helper()

	return eventually(g.t, strings.Join(names, ", ")+" running and converged", func() error {
		objects, err := g.list("VM")
		if err != nil {
			return err
		}

		for _, name := range names {
			o, found := objects[name]
			if !found {
				return fmt.Errorf("there is no VM %s", name)
			}

			if c := o.Status.condition("Converged"); o.Status.State != "running" || !isTrue(c) || o.Status.ObservedRevision != o.Metadata.Revision {
				return fmt.Errorf("VM %s: %+v", name, o.Status)
			}
		}

		return nil
	})
}

// isTrue reports whether a condition holds, as the word or as the boolean.
func isTrue(c condition) bool { return strings.EqualFold(fmt.Sprint(c.Status), "true") }

// none waits until there is no object of a kind.
func (g *gateway) none(kind string) time.Duration {
	g.t.Helper()

	return eventually(g.t, "no "+kind+" is left", func() error {
		objects, err := g.list(kind)
		if err == nil && len(objects) > 0 {
			err = fmt.Errorf("there are %d", len(objects))
		}

		return err
	})
}

// events returns the journal's entries of a source, oldest first; empty: of all.
func (g *gateway) events(source string) []entry {
	g.t.Helper()

	args := []string{"events", "-o", "json"}
	if source != "" {
		args = append(args, "--source", source)
	}

	return decodeEntries(g, g.cli(args...))
}

// decodeEntries reads either form that the command may print: one object with items, or one object a line.
func decodeEntries(g *gateway, text string) (entries []entry) {
	g.t.Helper()

	var list struct {
		Items []entry `json:"items"`
	}

	require.NoError(g.t, json.Unmarshal([]byte(text), &list), text)

	return list.Items
}
