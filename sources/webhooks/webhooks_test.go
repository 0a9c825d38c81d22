package webhooks_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // the older signature must be refused
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/controller/runtime"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"gateway/resources"
	"gateway/sources/intake"
	"gateway/sources/webhooks"
	"gateway/store"
)

const secret = "It's a Secret to Everybody"

// bench is a webhooks source on a memory store, without anybody who processes what it takes in.
type bench struct {
	t     *testing.T
	store *breakable
	srv   *webhooks.Server
	logs  *observer.ObservedLogs
	dir   string
}

// breakable is a store whose barrier can fail.
type breakable struct {
	store.Store

	broken error
}

func (b *breakable) Barrier(ctx context.Context) error {
	if b.broken != nil {
		return b.broken
	}

	return b.Store.Barrier(ctx)
}

func newBench(t *testing.T) *bench {
	t.Helper()

	core, logs := observer.New(zap.DebugLevel)
	logger := zap.New(core)
	b := &bench{t: t, store: &breakable{Store: store.NewMemory("home")}, logs: logs, dir: t.TempDir()}
	b.srv = webhooks.NewServer(webhooks.Options{
		State: b.store.State(), Barrier: b.store, Journal: b.store.Journal(), Logger: logger,
		Metrics: intake.NewMetrics(prometheus.NewRegistry()),
	})

	rt, err := runtime.NewRuntime(b.store.State(), zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, rt.RegisterController(webhooks.NewController(b.srv)))

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)

	go func() { done <- rt.Run(ctx) }()
	go func() { done <- b.srv.Run(ctx) }()

	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoError(t, <-done)
		require.NoError(t, b.store.Close())
	})
	require.Eventually(t, func() bool { return b.do(request{path: "/hooks/none"}).status == http.StatusNotFound }, 5*time.Second, time.Millisecond)

	return b
}

// TestStartingIsNotUnknown: until the documents are read a sender is told to come again, and not that there is no such route.
func TestStartingIsNotUnknown(t *testing.T) {
	t.Parallel()

	srv := webhooks.NewServer(webhooks.Options{
		State: store.NewMemory("home").State(), Logger: zap.NewNop(), Metrics: intake.NewMetrics(prometheus.NewRegistry()),
	})
	w := httptest.NewRecorder()
	srv.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/hooks/deploy", strings.NewReader("{}")))
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.NotEmpty(t, w.Header().Get("Retry-After"))
}

func (b *bench) file(content string) string {
	b.t.Helper()

	f, err := os.CreateTemp(b.dir, "secret")
	require.NoError(b.t, err)
	_, err = f.WriteString(content)
	require.NoError(b.t, err)
	require.NoError(b.t, f.Close())

	return f.Name()
}

// route declares a webhook and waits until it is in the table.
func (b *bench) route(name string, change func(*resources.WebhookSpec)) {
	b.t.Helper()

	hook := resources.NewWebhook(name)
	hook.TypedSpec().Auth.GitHub = &resources.SecretAuth{SecretFiles: []string{b.file(secret)}}

	if change != nil {
		change(hook.TypedSpec())
	}

	resources.SetUID(hook.Metadata(), name)
	resources.SetRevision(hook.Metadata(), 1)
	require.NoError(b.t, b.store.State().Create(b.t.Context(), hook))
	require.Eventually(b.t, func() bool {
		_, err := b.store.State().Get(b.t.Context(), resources.NewWebhookStatus(name).Metadata())

		return err == nil
	}, 5*time.Second, time.Millisecond)
}

func sign(key, body string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(body))

	return hex.EncodeToString(mac.Sum(nil))
}

type request struct {
	method, path, body string
	headers            map[string]string
	peer               string
}

type response struct {
	status  int
	header  http.Header
	ID      string
	IDs     []string
	Dup     bool   `json:"duplicate"`
	Message string `json:"error"`
}

func (b *bench) do(r request) response {
	b.t.Helper()

	if r.method == "" {
		r.method = http.MethodPost
	}

	req := httptest.NewRequest(r.method, r.path, strings.NewReader(r.body))
	req.RemoteAddr = "127.0.0.1:1000"

	if r.peer != "" {
		req.RemoteAddr = r.peer + ":1000"
	}

	for k, v := range r.headers {
		req.Header.Set(k, v)
	}

	w := httptest.NewRecorder()
	b.srv.Handler().ServeHTTP(w, req)

	res := response{status: w.Code, header: w.Header()}
	require.NoError(b.t, json.Unmarshal(w.Body.Bytes(), &res), w.Body.String())

	return res
}

// github sends a body signed as GitHub signs.
func (b *bench) github(name, body string, headers map[string]string) response {
	b.t.Helper()

	all := map[string]string{"X-Hub-Signature-256": "sha256=" + sign(secret, body), "Content-Type": "application/json", "X-GitHub-Event": "push"}
	for k, v := range headers {
		all[k] = v
	}

	return b.do(request{path: "/hooks/" + name, body: body, headers: all})
}

func (b *bench) events() []*resources.WebhookEvent {
	b.t.Helper()

	list, err := b.store.State().List(b.t.Context(), resources.NewWebhookEvent("").Metadata())
	require.NoError(b.t, err)

	events := make([]*resources.WebhookEvent, 0, len(list.Items))
	for _, r := range list.Items {
		events = append(events, r.(*resources.WebhookEvent))
	}

	return events
}

func TestCaseS1GitHubsDocumentedVectorIsAccepted(t *testing.T) {
	b := newBench(t)
	b.route("text", func(s *resources.WebhookSpec) { s.Content = "any" })

	res := b.do(request{path: "/hooks/text", body: "Hello, World!", headers: map[string]string{
		"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
	}})
	require.Equal(t, http.StatusAccepted, res.status)
	require.Len(t, b.events(), 1)
	require.Equal(t, "Hello, World!", string(b.events()[0].TypedSpec().Data))
}

func TestCaseS2StandardWebhooksAreVerifiedOnlyWhereTheRouteSaysSo(t *testing.T) {
	b := newBench(t)
	key := []byte("a key of thirty-two bytes length")
	b.route("standard", func(s *resources.WebhookSpec) {
		s.Auth = resources.WebhookAuth{Standard: &resources.SecretAuth{SecretFiles: []string{b.file("whsec_" + base64.StdEncoding.EncodeToString(key))}}}
	})
	b.route("gitlab", func(s *resources.WebhookSpec) {
		s.Auth = resources.WebhookAuth{GitLab: &resources.SecretAuth{SecretFiles: []string{b.file("token")}}}
	})

	body, id := `{"test": 2432232314}`, "msg_1"
	headers := func(at time.Time) map[string]string {
		stamp := strconv.FormatInt(at.Unix(), 10)
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", id, stamp, body)

		return map[string]string{"webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": "v1,AAAA v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}
	}

	require.Equal(t, http.StatusAccepted, b.do(request{path: "/hooks/standard", body: body, headers: headers(time.Now())}).status)
	require.Equal(t, http.StatusUnauthorized, b.do(request{path: "/hooks/standard", body: body, headers: headers(time.Now().Add(-time.Hour))}).status)

	unsigned := headers(time.Now())
	delete(unsigned, "webhook-signature")
	unsigned["X-Gitlab-Token"] = "token"
	require.Equal(t, http.StatusAccepted, b.do(request{path: "/hooks/gitlab", body: body, headers: unsigned}).status)
	require.Equal(t, http.StatusUnauthorized, b.do(request{path: "/hooks/standard", body: body, headers: unsigned}).status)
}

func TestCaseS3AnEmptyBodyIsAuthenticatedAndThenRefusedAsJSON(t *testing.T) {
	b := newBench(t)
	b.route("hook", nil)

	require.Equal(t, http.StatusBadRequest, b.github("hook", "", nil).status)
	require.Equal(t, http.StatusUnauthorized, b.github("hook", "", map[string]string{"X-Hub-Signature-256": "sha256=" + sign("other", "")}).status)
	require.Empty(t, b.events())
}

func TestCaseS4HeaderNamesInAnyCaseAndCapitalDigestsAreAccepted(t *testing.T) {
	b := newBench(t)
	b.route("hook", nil)

	res := b.do(request{path: "/hooks/hook", body: "{}", headers: map[string]string{"x-HUB-signature-256": "sha256=" + strings.ToUpper(sign(secret, "{}"))}})
	require.Equal(t, http.StatusAccepted, res.status)
}

func TestCaseS5TheOlderSignatureAloneIsRefusedAndLoggedOnceAMinute(t *testing.T) {
	b := newBench(t)
	b.route("hook", nil)

	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte("{}"))

	for range 10 {
		res := b.do(request{path: "/hooks/hook", body: "{}", headers: map[string]string{"X-Hub-Signature": "sha1=" + hex.EncodeToString(mac.Sum(nil))}})
		require.Equal(t, http.StatusUnauthorized, res.status)
	}

	require.Len(t, b.logs.FilterMessage("a delivery was refused").All(), 1)

	for _, entry := range b.logs.All() {
		require.NotContains(t, fmt.Sprint(entry.Message, entry.ContextMap()), secret)
	}

	require.Eventually(t, func() bool {
		r, err := b.store.State().Get(t.Context(), resources.NewWebhookStatus("hook").Metadata())

		return err == nil && r.(*resources.WebhookStatus).TypedSpec().Counts.Refused == 10
	}, 5*time.Second, 10*time.Millisecond)
}

func TestCaseS6WithoutASecretNothingIsAccepted(t *testing.T) {
	b := newBench(t)
	b.route("empty", func(s *resources.WebhookSpec) { s.Auth.GitHub.SecretFiles = []string{b.file(" \n")} })
	b.route("missing", func(s *resources.WebhookSpec) { s.Auth.GitHub.SecretFiles = []string{"/nonexistent"} })

	for _, name := range []string{"empty", "missing"} {
		res := b.do(request{path: "/hooks/" + name, body: "{}", headers: map[string]string{"X-Hub-Signature-256": "sha256=" + sign("", "{}")}})
		require.Equal(t, http.StatusServiceUnavailable, res.status)

		status, err := b.store.State().Get(t.Context(), resources.NewWebhookStatus(name).Metadata())
		require.NoError(t, err)
		require.Equal(t, resources.ConditionFalse, status.(*resources.WebhookStatus).TypedSpec().Conditions[0].Status)
	}

	spec := resources.NewWebhook("none").TypedSpec()
	spec.Auth.GitHub = &resources.SecretAuth{}
	require.NotEmpty(t, spec.Validate())
	require.NotEmpty(t, resources.NewWebhook("none").TypedSpec().Validate())
}

func TestCaseS7TheSecondOfTwoSignaturesCounts(t *testing.T) {
	b := newBench(t)
	b.route("stripe", func(s *resources.WebhookSpec) {
		s.Auth = resources.WebhookAuth{HMAC: &resources.HMACAuth{
			Header: "Stripe-Signature", TimestampHeader: "Stripe-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "v1=", SecretFiles: []string{b.file("new")},
		}}
	})

	send := func(at time.Time) int {
		stamp := strconv.FormatInt(at.Unix(), 10)
		header := "t=" + stamp + ",v1=" + sign("old", stamp+".{}") + ",v1=" + sign("new", stamp+".{}") + ",v0=00"

		return b.do(request{path: "/hooks/stripe", body: "{}", headers: map[string]string{"Stripe-Signature": header}}).status
	}

	require.Equal(t, http.StatusAccepted, send(time.Now()))
	require.Equal(t, http.StatusUnauthorized, send(time.Now().Add(-time.Hour)), "outside the replay window")
}

func TestARotatedSecretIsInForceWithoutARestart(t *testing.T) {
	b := newBench(t)
	path := b.file("old")
	b.route("hook", func(s *resources.WebhookSpec) { s.Auth.GitHub.SecretFiles = []string{path, b.file("standing")} })

	with := func(key string) int {
		return b.do(request{path: "/hooks/hook", body: "{}", headers: map[string]string{"X-Hub-Signature-256": "sha256=" + sign(key, "{}")}}).status
	}

	require.Equal(t, http.StatusAccepted, with("old"))
	require.Equal(t, http.StatusAccepted, with("standing"))
	require.NoError(t, os.WriteFile(filepath.Clean(path), []byte("newer"), 0o600))
	require.Eventually(t, func() bool { return with("newer") == http.StatusAccepted }, 5*time.Second, 20*time.Millisecond)
	require.Equal(t, http.StatusUnauthorized, with("old"))
}

type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)

	return len(p), nil
}

func TestCaseS8BodiesOverTheLimitAreRefusedWithoutBeingHeld(t *testing.T) {
	b := newBench(t)
	b.route("hook", nil)

	body := &endless{}
	req := httptest.NewRequest(http.MethodPost, "/hooks/hook", body)
	req.ContentLength = -1 // chunked
	w := httptest.NewRecorder()
	b.srv.Handler().ServeHTTP(w, req)
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	require.Less(t, body.read, 4<<20)

	body = &endless{}
	req = httptest.NewRequest(http.MethodPost, "/hooks/hook", body)
	req.ContentLength = 10485760
	w = httptest.NewRecorder()
	b.srv.Handler().ServeHTTP(w, req)
	require.Equal(t, http.StatusRequestEntityTooLarge, w.Code)
	require.Zero(t, body.read, "refused before reading")
}

func TestCaseS9GzipOnlyWhereTheRouteEnablesIt(t *testing.T) {
	b := newBench(t)
	b.route("plain", nil)
	b.route("gzip", func(s *resources.WebhookSpec) { s.Gzip = true })

	pack := func(text string) string {
		var buf bytes.Buffer

		z := gzip.NewWriter(&buf)
		_, err := z.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, z.Close())

		return buf.String()
	}

	encoding := map[string]string{"Content-Encoding": "gzip"}
	require.Equal(t, http.StatusUnsupportedMediaType, b.github("plain", pack(`{"a":1}`), encoding).status)
	require.Equal(t, http.StatusAccepted, b.github("gzip", pack(`{"a":1}`), encoding).status)
	require.Equal(t, `{"a":1}`, string(b.events()[0].TypedSpec().Data))
	require.Equal(t, http.StatusRequestEntityTooLarge, b.github("gzip", pack(`"`+strings.Repeat("a", 2<<20)+`"`), encoding).status)
}

func TestCaseS11TheSameDeliveryIsOneEventOnARouteAndAnotherOnAnother(t *testing.T) {
	b := newBench(t)
	b.route("one", nil)
	b.route("two", nil)

	id := map[string]string{"X-GitHub-Delivery": "72d3162e"}
	first := b.github("one", `{}`, id)
	require.Equal(t, http.StatusAccepted, first.status)
	require.False(t, first.Dup)

	second := b.github("one", `{}`, id)
	require.Equal(t, http.StatusAccepted, second.status)
	require.True(t, second.Dup)
	require.Equal(t, first.ID, second.ID)

	require.NotEqual(t, first.ID, b.github("two", `{}`, id).ID)
	require.Len(t, b.events(), 2)
}

func TestCaseS12CloudEventsInEveryMode(t *testing.T) {
	b := newBench(t)
	b.route("ce", func(s *resources.WebhookSpec) { s.Content = "cloudevents" })

	event := func(id string) string {
		return `{"specversion":"1.0","id":"` + id + `","source":"/s","type":"t","subject":"sub","data":{"n":12345678901234567890}}`
	}
	structured := map[string]string{"Content-Type": "application/cloudevents+json; charset=utf-8"}
	batch := map[string]string{"Content-Type": "application/cloudevents-batch+json"}

	res := b.github("ce", event("1"), structured)
	require.Equal(t, http.StatusAccepted, res.status)

	e := b.events()[0].TypedSpec()
	require.Equal(t, "t", e.Event.Type)
	require.Equal(t, "sub", e.Event.Subject)
	require.Equal(t, "/s", e.Event.CESource)
	require.JSONEq(t, `{"n":12345678901234567890}`, string(e.Data))

	require.True(t, b.github("ce", event("1"), structured).Dup, "the id of the event is the delivery's")

	binary := map[string]string{"Content-Type": "application/json", "ce-specversion": "1.0", "ce-id": "b%201", "ce-source": "/s", "ce-type": "t"}
	require.Equal(t, http.StatusAccepted, b.github("ce", `{"x":1}`, binary).status)

	before := len(b.events())
	res = b.github("ce", "["+event("3")+","+event("4")+","+event("5")+"]", batch)
	require.Equal(t, http.StatusAccepted, res.status)
	require.Len(t, res.IDs, 3)
	require.Len(t, b.events(), before+3)

	numbers := map[string]uint64{}
	for _, e := range b.events() {
		numbers[e.Metadata().ID()] = e.TypedSpec().Event.Sequence
	}

	require.Greater(t, numbers[res.IDs[0]], e.Event.Sequence, "numbered as they come")
	require.Greater(t, numbers[res.IDs[1]], numbers[res.IDs[0]], "and as they stand in the batch")
	require.Greater(t, numbers[res.IDs[2]], numbers[res.IDs[1]])

	require.Equal(t, http.StatusAccepted, b.github("ce", "[]", batch).status)

	bad := "[" + event("6") + `,{"specversion":"1.0","id":"7","source":"/s"},` + event("8") + "]"
	require.Equal(t, http.StatusBadRequest, b.github("ce", bad, batch).status)
	require.Len(t, b.events(), before+3, "none of a batch with an invalid event")
}

func TestCaseS13JSONIsTakenStrictlyAndNumbersExactly(t *testing.T) {
	b := newBench(t)
	b.route("hook", nil)

	for name, body := range map[string]string{
		"invalid UTF-8":  "{\"a\":\"\xff\"}",
		"duplicate keys": `{"a":1,"a":2}`,
		"10,001 levels":  strings.Repeat("[", 10001) + strings.Repeat("]", 10001),
		"129 levels":     strings.Repeat("[", 129) + strings.Repeat("]", 129),
		"two values":     `{} {}`,
		"cut off":        `{"a":`,
	} {
		require.Equal(t, http.StatusBadRequest, b.github("hook", body, nil).status, name)
	}

	require.Equal(t, http.StatusAccepted, b.github("hook", strings.Repeat("[", 128)+strings.Repeat("]", 128), nil).status)
	require.Equal(t, http.StatusAccepted, b.github("hook", `{"n":12345678901234567890,"N":1}`, map[string]string{"X-GitHub-Delivery": "exact"}).status)

	var found bool
	for _, e := range b.events() {
		found = found || string(e.TypedSpec().Data) == `{"n":12345678901234567890,"N":1}`
	}

	require.True(t, found)
}

func TestCaseS14WhatCanNotBeKeptIsNotAcknowledged(t *testing.T) {
	b := newBench(t)
	b.route("hook", nil)

	id := map[string]string{"X-GitHub-Delivery": "1"}
	b.store.broken = errors.New("disk full")

	res := b.github("hook", `{}`, id)
	require.Equal(t, http.StatusServiceUnavailable, res.status)
	require.NotEmpty(t, res.header.Get("Retry-After"))

	b.store.broken = nil

	require.Equal(t, http.StatusAccepted, b.github("hook", `{}`, id).status)
	require.Len(t, b.events(), 1, "the retry stores it once")
}

// A kill between the two writes of a delivery leaves the event without its entry in the journal: what is then acknowledged has
// one all the same. An event that is there because it failed is sent again, when it is cleared away.
func TestADeliveryWhoseEntryWasLostIsInTheJournalOnceItIsAcknowledged(t *testing.T) {
	b := newBench(t)
	b.route("hook", nil)

	id := map[string]string{"X-GitHub-Delivery": "1"}
	first := b.github("hook", `{}`, id)
	b.store.Journal().Forget(resources.SourceWebhook, "hook", "1") // as if it had been lost

	again := b.github("hook", `{}`, id)
	require.Equal(t, http.StatusAccepted, again.status)
	require.Equal(t, first.ID, again.ID)

	seen, ok := b.store.Journal().Seen(resources.SourceWebhook, "hook", "1")
	require.True(t, ok)
	require.Equal(t, first.ID, seen)

	b.store.Journal().Forget(resources.SourceWebhook, "hook", "1")
	require.NoError(t, b.store.Journal().Append(store.Entry{Class: store.ClassDead, Source: resources.SourceWebhook, Name: "hook", EventID: first.ID}))

	dead := b.github("hook", `{}`, id)
	require.Equal(t, http.StatusServiceUnavailable, dead.status)
	require.NotEmpty(t, dead.header.Get("Retry-After"))
}

func TestCaseS15UnknownRoutesMethodsAndTokensInTheQuery(t *testing.T) {
	b := newBench(t)
	b.route("bearer", func(s *resources.WebhookSpec) {
		s.Auth = resources.WebhookAuth{Bearer: &resources.TokenAuth{TokenFiles: []string{b.file("t0ken")}}}
	})

	require.Equal(t, http.StatusNotFound, b.do(request{path: "/hooks/nothing", body: "{}"}).status)

	res := b.do(request{method: http.MethodGet, path: "/hooks/bearer"})
	require.Equal(t, http.StatusMethodNotAllowed, res.status)
	require.Equal(t, http.MethodPost, res.header.Get("Allow"))

	require.Equal(t, http.StatusUnauthorized, b.do(request{path: "/hooks/bearer?token=t0ken", body: "{}"}).status)
	require.Equal(t, http.StatusUnauthorized, b.do(request{path: "/hooks/bearer", body: "{}", headers: map[string]string{"Authorization": "Bearer wrong"}}).status)
	require.Equal(t, http.StatusAccepted, b.do(request{path: "/hooks/bearer", body: "{}", headers: map[string]string{"authorization": "bearer t0ken"}}).status)

	for _, entry := range b.logs.All() {
		require.NotContains(t, fmt.Sprint(entry.Message, entry.ContextMap()), "t0ken")
	}

	require.NotContains(t, fmt.Sprint(b.events()[0].TypedSpec().Event.Headers), "t0ken")
}

func TestCaseS16TooManyRequestsOnOneRouteLeaveTheOthers(t *testing.T) {
	b := newBench(t)
	slow := func(overload int) func(*resources.WebhookSpec) {
		return func(s *resources.WebhookSpec) {
			s.Limits.Rate = resources.Rate{Count: 1, Per: resources.Duration(time.Hour)}
			s.Limits.Overload = overload
		}
	}
	b.route("a", slow(429))
	b.route("b", slow(503))
	b.route("c", nil)

	for name, status := range map[string]int{"a": 429, "b": 503} {
		require.Equal(t, http.StatusAccepted, b.github(name, `{}`, nil).status)

		res := b.github(name, `{}`, nil)
		require.Equal(t, status, res.status)
		require.NotEmpty(t, res.header.Get("Retry-After"))
	}

	require.Equal(t, http.StatusAccepted, b.github("c", `{}`, nil).status)
}

func TestCaseS17ForwardedForCountsFromTrustedProxiesOnly(t *testing.T) {
	b := newBench(t)
	b.route("hook", func(s *resources.WebhookSpec) {
		s.Allow, s.TrustedProxies = []string{"10.0.0.0/8"}, []string{"192.0.2.0/24"}
	})

	send := func(peer, forwarded string) int {
		return b.do(request{path: "/hooks/hook", body: "{}", peer: peer, headers: map[string]string{
			"X-Hub-Signature-256": "sha256=" + sign(secret, "{}"), "X-Forwarded-For": forwarded,
		}}).status
	}

	require.Equal(t, http.StatusForbidden, send("203.0.113.9", "10.1.1.1"), "an untrusted peer")
	require.Equal(t, http.StatusAccepted, send("10.1.1.1", "203.0.113.9"))
	require.Equal(t, http.StatusAccepted, send("192.0.2.1", "10.1.1.1"))
	require.Equal(t, http.StatusForbidden, send("192.0.2.1", "10.1.1.1, 203.0.113.9"), "the last hop is who spoke to the proxy")
	require.Equal(t, http.StatusAccepted, send("192.0.2.1", "203.0.113.9, 10.1.1.1, 192.0.2.7"))
}

func TestCaseS18TheSignatureIsOverTheRawBytesAndThePayloadDecodedAfterIt(t *testing.T) {
	b := newBench(t)
	b.route("form", func(s *resources.WebhookSpec) { s.Content = "form" })
	b.route("any", func(s *resources.WebhookSpec) { s.Content = "any" })

	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	require.Equal(t, http.StatusAccepted, b.github("form", "payload=%7B%22ref%22%3A%22main%22%7D", form).status)
	require.JSONEq(t, `{"ref":"main"}`, string(b.events()[0].TypedSpec().Data))
	require.Equal(t, http.StatusUnauthorized, b.github("form", "payload=%7B%22ref%22%3A%22main%22%7D",
		map[string]string{"Content-Type": form["Content-Type"], "X-Hub-Signature-256": "sha256=" + sign(secret, `{"ref":"main"}`)}).status)

	xml := map[string]string{"Content-Type": "application/xml", "X-GitHub-Delivery": "xml"}
	require.Equal(t, http.StatusAccepted, b.github("any", "<a>é</a>", xml).status)
	require.Equal(t, http.StatusUnsupportedMediaType, b.github("form", "<a/>", xml).status)
}

func TestAPingIsAnsweredAndHasNoTarget(t *testing.T) {
	b := newBench(t)
	b.route("hook", func(s *resources.WebhookSpec) {
		s.Target = &resources.Target{Kind: "VM", Selector: &resources.Selector{}}
	})

	require.Equal(t, http.StatusAccepted, b.github("hook", `{"zen":"x"}`, map[string]string{"X-GitHub-Event": "ping"}).status)

	e := b.events()[0]
	require.Nil(t, e.TypedSpec().Event.Target)
	require.True(t, e.Metadata().Finalizers().Empty())
	require.Equal(t, "com.github.ping", e.TypedSpec().Event.Type)
}

func TestARouteThatIsRemovedIsGoneWithItsStatus(t *testing.T) {
	b := newBench(t)
	b.route("hook", nil)
	require.NoError(t, b.store.State().Destroy(t.Context(), resources.NewWebhook("hook").Metadata()))
	require.Eventually(t, func() bool {
		_, err := b.store.State().Get(t.Context(), resources.NewWebhookStatus("hook").Metadata())

		return err != nil && b.github("hook", `{}`, nil).status == http.StatusNotFound
	}, 5*time.Second, 10*time.Millisecond)
}

func TestWaitAnswersWhenTheEventWasProcessed(t *testing.T) {
	b := newBench(t)
	b.route("hook", nil)

	trigger := resources.NewTrigger("t")
	trigger.TypedSpec().On.Source = resources.SourceWebhook
	require.NoError(t, b.store.State().Create(t.Context(), trigger))

	req := httptest.NewRequest(http.MethodPost, "/hooks/hook?wait=10s", strings.NewReader(`{}`))
	req.Header.Set("X-Hub-Signature-256", "sha256="+sign(secret, "{}"))
	req.Header.Set("X-GitHub-Delivery", "1")

	w, done := httptest.NewRecorder(), make(chan struct{})

	go func() {
		defer close(done)
		b.srv.Handler().ServeHTTP(w, req)
	}()

	require.Eventually(t, func() bool { return len(b.events()) == 1 }, 5*time.Second, time.Millisecond)
	require.NoError(t, b.store.State().RemoveFinalizer(t.Context(), b.events()[0].Metadata(), resources.FinalizerTrigger))
	<-done
	require.Equal(t, http.StatusOK, w.Code)

	body, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `"processed":true`)

	require.Equal(t, http.StatusBadRequest, b.do(request{path: "/hooks/hook?wait=forever", body: "{}"}).status)
}

func TestWhenTooManyEventsWaitSendersAreToldToComeAgain(t *testing.T) {
	b := newBench(t)
	b.route("hook", nil)

	waiting := func(i int) *resources.WebhookEvent { return resources.NewWebhookEvent(fmt.Sprint("waits-", i)) }

	for i := range intake.MaxPending {
		event := waiting(i)
		event.Metadata().Finalizers().Add(resources.FinalizerTrigger)
		require.NoError(t, b.store.State().Create(t.Context(), event))
	}

	// They are counted as they come through a watch.
	sent := 0
	send := func() response {
		sent++

		return b.github("hook", `{}`, map[string]string{"X-GitHub-Delivery": fmt.Sprint("sent-", sent)})
	}

	require.Eventually(t, func() bool {
		res := send()

		return res.status == http.StatusServiceUnavailable && res.header.Get("Retry-After") != ""
	}, 20*time.Second, 20*time.Millisecond)

	// What is processed makes room.
	for i := range sent {
		require.NoError(t, b.store.State().RemoveFinalizer(t.Context(), waiting(i).Metadata(), resources.FinalizerTrigger))
	}

	require.Eventually(t, func() bool { return send().status == http.StatusAccepted }, 20*time.Second, 20*time.Millisecond)
}
