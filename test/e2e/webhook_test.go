package e2e

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// githubSecret is the one of GitHub's documented example.
const githubSecret = "It's a Secret to Everybody"

// delivery is one webhook as GitHub sends it.
type delivery struct {
	id, body, secret string
}

// answer is what the gateway said to it.
type answer struct {
	Code      int
	ID        string `json:"id"`
	Duplicate bool   `json:"duplicate"`
}

// secret writes a file with a secret, and returns its path.
func (g *gateway) secret(name, text string) string {
	g.t.Helper()

	path := filepath.Join(g.path("secrets"), name)
	require.NoError(g.t, os.WriteFile(path, []byte(text+"\n"), 0o600))

	return path
}

// githubHook returns the document of a route that is signed as GitHub signs. rest is more of its spec, in YAML.
func (g *gateway) githubHook(name, rest string) string {
	g.t.Helper()

	return document("Webhook", name, fmt.Sprintf("{auth: {github: {secretFiles: [%s]}}%s}", g.secret(name, githubSecret), rest))
}

// post sends a delivery to a route. It may fail where the gateway is killed meanwhile.
func post(ctx context.Context, address, route string, d delivery) (answer, error) {
	mac := hmac.New(sha256.New, []byte(d.secret))
	mac.Write([]byte(d.body))

	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/hooks/"+route, bytes.NewBufferString(d.body))
	if err != nil {
		return answer{}, err
	}

	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "GitHub-Hookshot/044aadd", "X-GitHub-Event": "push",
		"X-GitHub-Delivery": d.id, "X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil)),
	} {
		request.Header.Set(name, value)
	}

	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()

	a := answer{Code: response.StatusCode}
	if a.Code != http.StatusAccepted {
		return a, nil
	}

	return a, json.NewDecoder(response.Body).Decode(&a)
}

// deliver sends a delivery and returns the answer.
func (g *gateway) deliver(t *testing.T, route string, d delivery) answer {
	t.Helper()

	a, err := post(t.Context(), g.http, route, d)
	require.NoError(t, err)

	return a
}

// routed waits until a route is served.
func (g *gateway) routed(t *testing.T, routes ...string) {
	t.Helper()

	for _, route := range routes {
		eventually(t, "the route "+route+" is served", func() error {
			// An unsigned delivery leads to nothing.
			response, err := http.Post("http://"+g.http+"/hooks/"+route, "application/json", bytes.NewBufferString("{}"))
			if err != nil {
				return err
			}

			if response.StatusCode != http.StatusUnauthorized {
				err = fmt.Errorf("it answers %d", response.StatusCode)
			}

			response.Body.Close()

			return err
		})
	}
}
