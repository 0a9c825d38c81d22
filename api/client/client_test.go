package client_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gateway/api/apitest"
	"gateway/api/client"
	"gateway/resources"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAServerIsAUnixSocket(t *testing.T) {
	for address, want := range map[string]string{
		"unix:///run/gateway/gateway.sock":          "/run/gateway/gateway.sock",
		"/run/gateway/gateway.sock":                 "/run/gateway/gateway.sock",
		"unix://gateway-data/gateway.sock":          "gateway-data/gateway.sock",
		"unix:gateway-data/gateway.sock":            "gateway-data/gateway.sock",
		"unix://./gateway-data/gateway.sock":        "./gateway-data/gateway.sock",
		"unix:///a directory/with%20x/gateway.sock": "/a directory/with x/gateway.sock",
	} {
		c, err := client.New(address)
		require.NoError(t, err, address)
		require.Equal(t, want, c.Socket())
	}

	for address, want := range map[string]string{
		"https://node-7:8443": "servers over https are not supported in this version, use unix:///PATH",
		"unix://":             "write unix:///PATH",
		"gateway.sock":        "write unix:///PATH",
		"tcp://node-7:1":      "write unix:///PATH",
	} {
		_, err := client.New(address)
		require.ErrorIs(t, err, client.ErrAddress, address)
		require.ErrorContains(t, err, want)
	}
}

func TestTheFirstSocketThatAnswersIsTaken(t *testing.T) {
	w := apitest.Start(t)
	nobody := filepath.Join(t.TempDir(), "gateway.sock")

	c, i, err := client.Find(t.Context(), []string{nobody, w.Path})
	require.NoError(t, err)
	require.Equal(t, 1, i)
	require.Equal(t, w.Path, c.Socket())

	w.Stop() // the file stays or not: nobody listens

	_, _, err = client.Find(t.Context(), []string{nobody, w.Path})
	require.ErrorIs(t, err, client.ErrUnreachable)
	require.ErrorContains(t, err, nobody+" or "+w.Path)

	_, err = w.Client.Version(t.Context())
	require.ErrorIs(t, err, client.ErrUnreachable)

	err = w.Client.Watch(t.Context(), "VM", "", "", func(client.Change) (bool, error) { return true, nil })
	require.ErrorIs(t, err, client.ErrUnreachable, "a watch that never began does not look for its gateway")
}

func TestAnAnswerThatIsNoGatewaysIsSaidSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)

	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/version" {
			w.WriteHeader(http.StatusTeapot)
		}
	})}
	done := make(chan error, 1)

	go func() { done <- server.Serve(listener) }()

	c, err := client.New(path)
	require.NoError(t, err)

	_, err = c.Version(t.Context())
	require.EqualError(t, err, "the gateway answered 418 I'm a teapot; is it of another version?")

	_, err = c.List(t.Context(), "VM", "")
	require.ErrorContains(t, err, "error reading the gateway's answer")

	c.Close()
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-done, http.ErrServerClosed)
}

func TestAWatchFollowsAGatewayThatIsRestarted(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)
	w.VM("web-2", nil)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	var steps []string

	err := w.Client.Watch(ctx, "VM", "", "", func(c client.Change) (bool, error) {
		steps = append(steps, c.Type+" "+c.Name)

		switch len(steps) {
		case 3:
			w.Stop()
			require.NoError(t, w.State.Destroy(ctx, resources.NewVMConfig("web-1").Metadata()))
			w.VM("web-3", nil)
			w.Serve()
		case 6:
			return false, nil
		}

		return true, nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{
		"current web-1", "current web-2", "synced ", "current web-2", "current web-3", "deleted web-1",
	}, steps)
}

func TestObjectsComeOutAsTheyCameIn(t *testing.T) {
	text := `{"apiVersion":"gateway/v1alpha1","kind":"VM","metadata":{"name":"a"},"spec":{"later":[1.50,{"b":1,"a":2}]},"status":{"state":"running"}}`

	var object client.Object
	require.NoError(t, json.Unmarshal([]byte(text), &object))

	again, err := json.Marshal(object)
	require.NoError(t, err)
	require.Equal(t, text, string(again))

	_, err = client.StatusOf[struct {
		State int `json:"state"`
	}](&object)
	require.ErrorContains(t, err, "error reading VM/a")
}
