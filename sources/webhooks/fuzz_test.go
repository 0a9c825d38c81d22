package webhooks

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources"
	"gateway/sources/payload"
)

// FuzzDecodeContent: whatever is sent, content of a form or of JSON that is taken is JSON that passes the same check, and
// a form's fields are all there.
func FuzzDecodeContent(f *testing.F) {
	f.Add([]byte(`payload=%7B%22ref%22%3A%22main%22%7D`), "application/x-www-form-urlencoded")
	f.Add([]byte(`a=1&a=2&b=%FF`), "application/x-www-form-urlencoded; charset=utf-8")
	f.Add([]byte(`{"a":1}`), "application/json")
	f.Add([]byte(`%zz`), ";;")

	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		h := http.Header{"Content-Type": {contentType}}

		for _, content := range []string{"form", "json", "any"} {
			data, typ, err := decodeContent(content, h, body)
			if err != nil {
				refused, ok := err.(*refusal) //nolint:errorlint // the handler finds it as it is
				require.True(t, ok, "%T", err)
				require.Contains(t, []int{http.StatusBadRequest, http.StatusUnsupportedMediaType}, refused.status)

				continue
			}

			if content == "any" {
				require.Equal(t, body, data)

				continue
			}

			require.Equal(t, "application/json", typ)
			require.NoError(t, payload.CheckJSON(data))

			if values, err := url.ParseQuery(string(body)); content == "form" && err == nil && values["payload"] == nil {
				var fields map[string]any
				require.NoError(t, json.Unmarshal(data, &fields))
				require.LessOrEqual(t, len(fields), len(values))
			}

			var a resources.EventAttributes

			describe(&resources.WebhookSpec{}, h, data, &a)
			require.NotEmpty(t, a.Type)
			require.LessOrEqual(t, len(a.Subject), maxAttribute)
		}
	})
}

// FuzzSignatures: no header, however it looks, is a signature of a secret that its sender does not know, and none makes the
// parser fail.
func FuzzSignatures(f *testing.F) {
	f.Add("sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", "v1,Zm9v", "1614265330")
	f.Add("t=1614265330,v1=aa,v1=bb", "v1a,=", "-1")
	f.Add(",,=,t=,v1=", "", strings.Repeat("9", 40))

	path := filepath.Join(f.TempDir(), "secret")
	require.NoError(f, os.WriteFile(path, []byte("a secret that is not in the corpus"), 0o600))

	known := &secrets{paths: []string{path}}
	rules := []resources.HMACAuth{
		{Header: "X-Sig", Algorithm: "sha256", Encoding: "hex", Prefix: "sha256="},
		{Header: "X-Sig", Algorithm: "sha1", Encoding: "base64"},
		{Header: "X-Sig", Algorithm: "sha512", Encoding: "hex", Prefix: "v1=", TimestampHeader: "X-Sig"},
		{Header: "X-Sig", Algorithm: "sha256", Encoding: "base64", TimestampHeader: "X-Time"},
		{Header: "X-Sig", Algorithm: "sha256", Encoding: "hex", TimestampHeader: "X-Sig", SignedText: "v0:{timestamp}:{header.X-Time}:{body}"},
	}

	f.Fuzz(func(t *testing.T, header, standardHeader, stamp string) {
		for _, rule := range rules {
			s, err := newHMAC(nil, rule, 0)
			require.NoError(t, err)

			given, _ := s.parse(http.Header{"X-Sig": {header, header}, "X-Time": {stamp}})

			for _, sum := range given {
				require.NotEmpty(t, sum)
			}
		}

		request, err := http.NewRequest(http.MethodPost, "/hooks/a", nil)
		require.NoError(t, err)

		request.Header = http.Header{
			"X-Sig": {header}, "X-Time": {stamp}, "Webhook-Signature": {standardHeader}, "Webhook-Id": {header}, "Webhook-Timestamp": {stamp},
			"Authorization": {header},
		}

		for _, rule := range rules {
			s, err := newHMAC(nil, rule, 0)
			require.NoError(t, err)

			s.secrets = known
			require.Error(t, s.verify(request, []byte(stamp)))
		}

		require.Error(t, (&standard{secrets: known}).verify(request, []byte(stamp)))
		require.Error(t, (&tokens{secrets: known, header: "Authorization", scheme: "Bearer "}).verify(request, nil))
		require.Error(t, (&basic{secrets: known, user: "u"}).verify(request, nil))
	})
}

// FuzzPeer: without a trusted proxy nothing that is sent changes who sends; with one, the peer is always an address, and one
// that is not the proxy's own unless nobody else is named.
func FuzzPeer(f *testing.F) {
	f.Add("10.0.0.1:1", "192.0.2.7, 10.0.0.1")
	f.Add("[::1]:80", "")
	f.Add("10.0.0.1:1", "x,,::ffff:192.0.2.7%eth0")
	f.Add("", ",")

	f.Fuzz(func(t *testing.T, remote, forwarded string) {
		r := &http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": {forwarded}}}
		alone := peerOf(&http.Request{RemoteAddr: remote, Header: http.Header{}}, nil)
		require.Equal(t, alone, peerOf(r, nil))

		peer := peerOf(r, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
		require.Equal(t, alone.IsValid(), peer.IsValid())
		require.Empty(t, peer.Zone())

		if !strings.HasPrefix(alone.String(), "10.") {
			require.Equal(t, alone, peer)
		}
	})
}
