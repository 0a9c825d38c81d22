package requests_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/state/owned"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest"

	"gateway/api"
	"gateway/api/requests"
	"gateway/broker"
	"gateway/config"
	"gateway/resources"
	"gateway/store"
)

const vm = `{"apiVersion": "gateway/v1alpha1", "kind": "VM", "metadata": {"name": "web-1", "labels": {"tier": "web"}}, "spec": {"memory": "128MiB"}}`

// world is a service on an embedded server and a store in memory.
type world struct {
	t         *testing.T
	store     store.Store
	admission *store.Admission
	conn      *nats.Conn
	url       string
	token     string
	// barriers counts what was answered only after the barrier.
	barriers *counting
}

type counting struct {
	store.Store

	calls int
	err   error
}

func (c *counting) Barrier(ctx context.Context) error {
	c.calls++

	if c.err != nil {
		return c.err
	}

	return c.Store.Barrier(ctx)
}

func start(t *testing.T, prefix string, open bool) *world {
	t.Helper()

	w := &world{t: t, store: store.NewMemory("home")}
	w.barriers = &counting{Store: w.store}
	cfg := config.NATS{}
	options := broker.EmbeddedOptions{Listen: "127.0.0.1:0", DataDir: t.TempDir()}

	if !open {
		w.token = "secret"
		options.TokenFile = filepath.Join(t.TempDir(), "token")
		cfg.Embedded.TokenFile = options.TokenFile
		require.NoError(t, os.WriteFile(options.TokenFile, []byte(w.token), 0o600))
	}

	embedded, err := broker.StartEmbedded(options)
	require.NoError(t, err)
	t.Cleanup(embedded.Stop)

	w.url = embedded.URL()
	w.conn, err = broker.Connect(cfg, embedded, zaptest.NewLogger(t))
	require.NoError(t, err)
	t.Cleanup(w.conn.Close)

	w.admission = store.NewAdmission(config.Default().Policy, w.store.Journal())
	service := requests.New(requests.Options{
		Connection: w.conn, Names: broker.Names{Prefix: prefix}, GatewayID: "home", Version: "v1.2.3", Open: embedded.Open(), Logger: zaptest.NewLogger(t),
		Operations: api.NewOperations(api.SocketOptions{
			Store: w.barriers, Admission: w.admission, Pacer: store.NewPacer(0), Logger: zaptest.NewLogger(t),
		}),
	})

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)

	go func() { done <- service.Run(ctx) }()

	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})

	require.Eventually(t, func() bool {
		_, err := w.conn.Request("$SRV.PING."+prefix, nil, time.Second)

		return err == nil
	}, 5*time.Second, 10*time.Millisecond)

	return w
}

// ask sends a request and returns the answer, its body decoded into into.
func (w *world) ask(subject, body string, into any) *nats.Msg {
	w.t.Helper()

	msg := nats.NewMsg(subject)
	msg.Data = []byte(body)

	return w.send(msg, into)
}

func (w *world) send(msg *nats.Msg, into any) *nats.Msg {
	w.t.Helper()

	var answer *nats.Msg

	// The endpoints are subscribed one after another: the last may not be there yet.
	require.Eventually(w.t, func() bool {
		var err error
		answer, err = w.conn.RequestMsg(msg, 5*time.Second)

		return err == nil
	}, 10*time.Second, 10*time.Millisecond)

	if into != nil {
		require.NoError(w.t, json.Unmarshal(answer.Data, into), "%s", answer.Data)
	}

	return answer
}

func code(msg *nats.Msg) string { return msg.Header.Get("Nats-Service-Error-Code") }

func TestARequesterDeclaresReadsSyncsAndTakesAwayItsVMs(t *testing.T) {
	w := start(t, "gateway", false)

	var applied api.Applied

	require.Empty(t, code(w.ask("gateway.request.apply", vm, &applied)))
	require.Len(t, applied.Objects, 1)
	require.Equal(t, resources.OutcomeCreated, applied.Objects[0].Outcome)
	require.Equal(t, 1, w.barriers.calls, "it is answered once it is durable")

	declared, err := w.store.State().Get(t.Context(), resources.NewVMConfig("web-1").Metadata())
	require.NoError(t, err)
	require.Equal(t, resources.Origin{Source: resources.OriginRequest}, resources.OriginOf(declared.Metadata()))

	var object struct {
		Kind     string
		Metadata config.ObjectMetadata
	}

	w.ask("gateway.request.get", `{"kind": "vm", "name": "web-1"}`, &object)
	require.Equal(t, "web-1", object.Metadata.Name)
	require.Equal(t, "request", object.Metadata.Origin)

	var list struct{ Items []json.RawMessage }

	w.ask("gateway.request.get", `{"kind": "VM", "selector": {"tier": "web"}}`, &list)
	require.Len(t, list.Items, 1)
	w.ask("gateway.request.get", `{"kind": "VM", "selector": {"tier": "db"}}`, &list)
	require.Empty(t, list.Items)

	require.Empty(t, code(w.ask("gateway.request.sync", `{"kind": "VM", "selector": {}}`, nil)))

	kind, _ := resources.KindByName("Resync")
	resyncs, err := w.store.State().List(t.Context(), kind.List())
	require.NoError(t, err)
	require.Len(t, resyncs.Items, 1)

	require.Empty(t, code(w.ask("gateway.request.delete", `{"kind": "VM", "name": "web-1"}`, nil)))

	commands, err := w.store.Journal().Query(t.Context(), store.Query{Classes: []store.Class{store.ClassCommand}})
	require.NoError(t, err)
	require.Len(t, commands, 3)

	for i, name := range []string{"apply", "sync", "delete"} {
		require.Equal(t, name, commands[i].Name)
		require.Equal(t, "request", commands[i].Source)
		require.Contains(t, commands[i].Peer, "_INBOX.")
	}

	revisions, err := w.store.Journal().Query(t.Context(), store.Query{Classes: []store.Class{store.ClassRevision}, EventID: commands[0].EventID})
	require.NoError(t, err)
	require.Len(t, revisions, 1, "what a command changed has it as its cause")
}

func TestARequesterIsHeldAsASender(t *testing.T) {
	w := start(t, "gateway", false)
	mine := resources.Origin{Source: resources.OriginFile, Name: "/docs/a.yaml", Root: "/docs"}
	file := resources.NewVMConfig("declared")
	file.TypedSpec().Memory = 128 << 20

	_, err := w.admission.Apply(t.Context(), owned.New(w.store.State(), ""), store.Change{Object: file, Origin: mine})
	require.NoError(t, err)

	object := func(kind, name, spec string) string {
		return `{"apiVersion": "gateway/v1alpha1", "kind": "` + kind + `", "metadata": {"name": "` + name + `"}, "spec": ` + spec + `}`
	}

	for name, tc := range map[string]struct{ body, outcome, message string }{
		"a host":                      {object("Host", "a", `{"uri": "sim://a"}`), resources.OutcomeRefused, "request may not declare a Host"},
		"a webhook":                   {object("Webhook", "a", `{"auth": {"none": true}}`), resources.OutcomeRefused, "request may not declare a Webhook"},
		"a path that policy forbids":  {object("VM", "a", `{"boot": {"kernel": "/etc/shadow"}}`), resources.OutcomeRefused, "spec.boot.kernel"},
		"a VM that a file declares":   {object("VM", "declared", `{"cpus": 4}`), resources.OutcomeConflict, "/docs/a.yaml"},
		"several, one of them a host": {"[" + vm + "," + object("Host", "a", `{"uri": "sim://a"}`) + "]", resources.OutcomeRefused, "Host"},
	} {
		t.Run(name, func(t *testing.T) {
			var applied api.Applied

			w.ask("gateway.request.apply", tc.body, &applied)
			require.Equal(t, tc.outcome, applied.Objects[0].Outcome)
			require.Contains(t, applied.Objects[0].Message, tc.message)
		})
	}

	refused := w.ask("gateway.request.delete", `{"kind": "VM", "name": "declared"}`, nil)
	require.Equal(t, resources.ReasonNotOwned, code(refused))
	require.Contains(t, refused.Header.Get("Nats-Service-Error"), "/docs/a.yaml")
}

func TestRequestsThatCantBeServedSayWhy(t *testing.T) {
	w := start(t, "gateway", false)

	for name, tc := range map[string]struct{ verb, body, code, message string }{
		"no documents":          {"apply", " ", requests.CodeInvalid, "no documents"},
		"a fault in a document": {"apply", "kind: VM", requests.CodeInvalid, "request:1:1"},
		"no JSON":               {"get", "web-1", requests.CodeInvalid, "can't be read"},
		"an unknown field":      {"get", `{"kind": "VM", "nme": "a"}`, requests.CodeInvalid, "nme"},
		"more than one value":   {"sync", `{"kind": "VM", "name": "a"} {}`, requests.CodeInvalid, "more after"},
		"an unknown kind":       {"get", `{"kind": "Pod"}`, requests.CodeInvalid, "Pod"},
		"events":                {"get", `{"kind": "WebhookEvent"}`, requests.CodeInvalid, "can't be asked for"},
		"name and selector":     {"get", `{"kind": "VM", "name": "a", "selector": {}}`, requests.CodeInvalid, "not both"},
		"what is not there":     {"get", `{"kind": "VM", "name": "a"}`, requests.CodeNotFound, "not found"},
		"a sync of nothing":     {"sync", `{"kind": "VM"}`, requests.CodeInvalid, "selector"},
		"a sync of none":        {"sync", `{"kind": "VM", "name": "a"}`, requests.CodeNotFound, "not found"},
		"no object to delete":   {"delete", `{"kind": "VM", "name": "a"}`, requests.CodeNotFound, "not found"},
		"a status to delete":    {"delete", `{"kind": "VMStatus", "name": "a"}`, requests.CodeNotFound, "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			var problem api.Problem

			answer := w.ask("gateway.request."+tc.verb, tc.body, &problem)
			require.Equal(t, tc.code, code(answer))
			require.Contains(t, answer.Header.Get("Nats-Service-Error"), tc.message)
			require.NotEmpty(t, problem.Errors)
			require.Equal(t, tc.code, problem.Reason, "the body says it as the header does")
		})
	}
}

func TestWithoutCredentialsNothingIsWritten(t *testing.T) {
	w := start(t, "gateway", true)

	for _, verb := range []string{"apply", "delete"} {
		answer := w.ask("gateway.request."+verb, vm, nil)
		require.Equal(t, "UnauthenticatedBroker", code(answer))
		require.Contains(t, answer.Header.Get("Nats-Service-Error"), "nats.embedded.tokenFile")
	}

	entries, err := w.store.Journal().Query(t.Context(), store.Query{})
	require.NoError(t, err)
	require.Empty(t, entries)

	var list api.List

	require.Empty(t, code(w.ask("gateway.request.get", `{"kind": "VM"}`, &list)))
}

func TestWhatIsNotDurableIsNotAnswered(t *testing.T) {
	w := start(t, "gateway", false)
	w.barriers.err = context.DeadlineExceeded

	answer := w.ask("gateway.request.apply", vm, nil)
	require.Equal(t, requests.CodeInternal, code(answer))
}

func TestADryRunChangesNothing(t *testing.T) {
	w := start(t, "gateway", false)

	msg := nats.NewMsg("gateway.request.apply")
	msg.Data = []byte(vm)
	msg.Header.Set(requests.HeaderDryRun, "true")

	var applied api.Applied

	w.send(msg, &applied)
	require.Equal(t, resources.OutcomeCreated, applied.Objects[0].Outcome)

	_, err := w.store.State().Get(t.Context(), resources.NewVMConfig("web-1").Metadata())
	require.Error(t, err)
}

// natsCLI returns the official command line, which `make tools` installs.
func natsCLI(t *testing.T) string {
	t.Helper()

	path, err := filepath.Abs("../../.cache/bin/nats")
	require.NoError(t, err)

	if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath("nats"); err != nil {
			t.Skip("the nats command line is not installed: it is one of the tools that the Makefile installs")
		}
	}

	return path
}

func TestTheOfficialCommandLineListsTheServiceAndSendsRequests(t *testing.T) {
	path := natsCLI(t)
	w := start(t, "edge-1", false)
	url := strings.Replace(w.url, "nats://", "nats://"+w.token+"@", 1)

	run := func(arguments ...string) string {
		t.Helper()

		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()

		cmd := exec.CommandContext(ctx, path, append([]string{"--server", url}, arguments...)...)
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)

		return string(out)
	}

	list := run("micro", "ls")
	require.Contains(t, list, "edge-1")
	require.Contains(t, list, "1.2.3")

	info := run("micro", "info", "edge-1")
	for _, verb := range []string{"apply", "get", "delete", "sync"} {
		require.Contains(t, info, "edge-1.request."+verb)
	}

	require.Contains(t, run("req", "--raw", "edge-1.request.apply", vm), `"outcome":"created"`)
	require.Contains(t, run("req", "--raw", "edge-1.request.get", `{"kind":"VM","name":"web-1"}`), `"name":"web-1"`)
	require.Contains(t, run("req", "edge-1.request.get", `{"kind":"VM","name":"gone"}`), "Nats-Service-Error-Code: NotFound")
}
