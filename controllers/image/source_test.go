package image_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/config"
	"gateway/controllers/image"
)

// offers is a server on this machine: /listed/… may be listed in the policy.
func offers(t *testing.T) *httptest.Server {
	t.Helper()

	mux := http.NewServeMux()
	mux.HandleFunc("/listed/image", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			http.Error(w, "it must not be packed on the way", http.StatusBadRequest)

			return
		}

		fmt.Fprint(w, "the content")
	})
	mux.HandleFunc("/listed/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/listed/image", http.StatusFound) })
	mux.HandleFunc("/listed/out", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/secret", http.StatusFound) })
	mux.HandleFunc("/listed/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/listed/round", http.StatusFound) })
	mux.HandleFunc("/listed/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/secret", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") })

	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)

	return server
}

func fetch(t *testing.T, policy config.Policy, url string) (string, error) {
	t.Helper()

	content, size, err := image.NewHTTPSource(policy).Open(t.Context(), url)
	if err != nil {
		return "", err
	}

	defer func() { require.NoError(t, content.Close()) }()

	all, err := io.ReadAll(content)
	require.NoError(t, err)
	require.EqualValues(t, len(all), size)

	return string(all), nil
}

func TestHTTPSourceFetchesWhatThePolicyAllows(t *testing.T) {
	server := offers(t)
	listed := config.Policy{ImageURLs: []string{"https", server.URL + "/listed"}}

	for _, path := range []string{"/listed/image", "/listed/moved"} {
		content, err := fetch(t, listed, server.URL+path)
		require.NoError(t, err)
		require.Equal(t, "the content", content)
	}
}

func TestHTTPSourceRefusesWhatThePolicyDoesNot(t *testing.T) {
	server := offers(t)
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	listed := config.Policy{ImageURLs: []string{"https", "http", server.URL + "/listed"}}

	for name, test := range map[string]struct {
		policy config.Policy
		url    string
		why    string
	}{
		"a scheme that is not listed":                   {config.Policy{ImageURLs: []string{"https"}}, "http://images.example/x", "http://images.example/x is not allowed"},
		"this machine, by its address":                  {config.Policy{ImageURLs: []string{"http"}}, server.URL + "/secret", "127.0.0.1 is not a public address"},
		"this machine, by a name that leads to it":      {config.Policy{ImageURLs: []string{"http"}}, "http://localhost.:" + port + "/secret", "is this machine"},
		"an address that is written in another way":     {config.Policy{ImageURLs: []string{"http"}}, "http://[::ffff:127.0.0.1]:" + port + "/secret", "not a public address"},
		"an address that is only found when it is used": {config.Policy{ImageURLs: []string{"http"}}, "http://127.1:" + port + "/secret", ""},
		"a redirect out of what is listed":              {listed, server.URL + "/listed/out", "not a public address"},
		"a redirect without an end":                     {listed, server.URL + "/listed/round", "more than 10 redirects"},
		"a redirect to another scheme":                  {listed, server.URL + "/listed/file", "file:///etc/passwd is not allowed"},
		"a path beside the one that is listed":          {listed, server.URL + "/listed/../secret", "not a public address"},
		"what is not there":                             {listed, server.URL + "/listed/missing?token=hidden", "the server answers 404 Not Found"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetch(t, test.policy, test.url)
			require.ErrorContains(t, err, test.why)
			require.NotContains(t, err.Error(), "hidden", "what may be secret in a URL")
		})
	}
}

func TestHTTPSourceEndsWithItsContext(t *testing.T) {
	server := offers(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, _, err := image.NewHTTPSource(config.Policy{ImageURLs: []string{server.URL}}).Open(ctx, server.URL+"/listed/image")
	require.ErrorIs(t, err, context.Canceled)
}
