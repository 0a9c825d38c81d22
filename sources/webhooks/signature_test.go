package webhooks_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

// sender is one that signs a time in a way of its own. Header values have {t} for the time, {s} for the signature.
type sender struct {
	auth    resources.HMACAuth
	content string
	headers map[string]string
	body    string
	// signed is what the sender signs, with {t} for the time.
	signed func(stamp, body string) string
	// stamp writes a time; nil: Unix seconds.
	stamp func(time.Time) string
}

// senders have the shapes that their documentation shows.
var senders = map[string]sender{
	"stripe": {
		auth:    resources.HMACAuth{Header: "Stripe-Signature", TimestampHeader: "Stripe-Signature", Prefix: "v1="},
		headers: map[string]string{"Stripe-Signature": "t={t},v1={s},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"},
		body:    `{"id":"evt_1","object":"event","type":"charge.succeeded"}`,
		signed:  func(stamp, body string) string { return stamp + "." + body },
	},
	"slack": {
		auth:    resources.HMACAuth{Header: "X-Slack-Signature", TimestampHeader: "X-Slack-Request-Timestamp", Prefix: "v0=", SignedText: "v0:{timestamp}:{body}"},
		content: "form",
		headers: map[string]string{"X-Slack-Signature": "v0={s}", "X-Slack-Request-Timestamp": "{t}", "Content-Type": "application/x-www-form-urlencoded"},
		body:    "token=xyz&team_id=T1DC2JH3J&command=%2Fweather&text=94070",
		signed:  func(stamp, body string) string { return "v0:" + stamp + ":" + body },
	},
	"grafana": {
		auth: resources.HMACAuth{
			Header: "X-Grafana-Alerting-Signature", TimestampHeader: "X-Grafana-Alerting-Timestamp", SignedText: "{timestamp}:{body}",
		},
		headers: map[string]string{"X-Grafana-Alerting-Signature": "{s}", "X-Grafana-Alerting-Timestamp": "{t}"},
		body:    `{"receiver":"gateway","status":"firing","alerts":[]}`,
		signed:  func(stamp, body string) string { return stamp + ":" + body },
	},
	"paddle": {
		auth:    resources.HMACAuth{Header: "Paddle-Signature", TimestampHeader: "Paddle-Signature", Prefix: "h1=", SignedText: "{timestamp}:{body}"},
		headers: map[string]string{"Paddle-Signature": "ts={t};h1={s}"},
		body:    `{"event_id":"evt_1","event_type":"transaction.billed"}`,
		signed:  func(stamp, body string) string { return stamp + ":" + body },
	},
	"svix": {
		auth: resources.HMACAuth{
			Header: "Svix-Signature", TimestampHeader: "Svix-Timestamp", Prefix: "v1.", Encoding: "base64", SignedText: "{header.Svix-Id}.{timestamp}.{body}",
		},
		headers: map[string]string{"Svix-Signature": "v1.{s}", "Svix-Timestamp": "{t}", "Svix-Id": "msg_p5jX"},
		body:    `{"test":2432232314}`,
		signed:  func(stamp, body string) string { return "msg_p5jX." + stamp + "." + body },
	},
	"hubspot": {
		auth: resources.HMACAuth{
			Header: "X-HubSpot-Signature-V3", TimestampHeader: "X-HubSpot-Request-Timestamp", Encoding: "base64", SignedText: "POSThttps://gw.example/hooks/hubspot{body}{timestamp}",
		},
		headers: map[string]string{"X-HubSpot-Signature-V3": "{s}", "X-HubSpot-Request-Timestamp": "{t}"},
		body:    `[{"eventId":1}]`,
		signed:  func(stamp, body string) string { return "POSThttps://gw.example/hooks/hubspot" + body + stamp },
		stamp:   func(at time.Time) string { return strconv.FormatInt(at.UnixMilli(), 10) },
	},
}

// request is a delivery at a time. forge changes it after it was signed.
func (s *sender) request(name string, at time.Time, forge func(stamp, body string) (string, string)) request {
	stamp := strconv.FormatInt(at.Unix(), 10)
	if s.stamp != nil {
		stamp = s.stamp(at)
	}

	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(s.signed(stamp, s.body)))

	sum := mac.Sum(nil)
	signature := hex.EncodeToString(sum)

	if s.auth.Encoding == "base64" {
		signature = base64.StdEncoding.EncodeToString(sum)
	}

	body := s.body
	if forge != nil {
		stamp, body = forge(stamp, body)
	}

	headers := map[string]string{}
	for key, value := range s.headers {
		headers[key] = strings.NewReplacer("{t}", stamp, "{s}", signature).Replace(value)
	}

	return request{path: "/hooks/" + name, body: body, headers: headers}
}

func TestSendersThatSignATimeAreVerifiedAsTheySign(t *testing.T) {
	b := newBench(t)
	files := []string{b.file("old"), b.file(secret)}

	for name, s := range senders {
		b.route(name, func(spec *resources.WebhookSpec) {
			auth := s.auth
			resources.SetDefaults(&auth)
			auth.SecretFiles = files
			spec.Auth = resources.WebhookAuth{HMAC: &auth}

			if s.content != "" {
				spec.Content = s.content
			}

			require.Empty(t, spec.Validate())
		})
	}

	for name, s := range senders {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			send := func(at time.Time, forge func(stamp, body string) (string, string)) int {
				return b.do(s.request(name, at, forge)).status
			}

			require.Equal(t, http.StatusAccepted, send(now, nil))
			require.Equal(t, http.StatusUnauthorized, send(now.Add(-time.Hour), nil), "sent again an hour later")
			require.Equal(t, http.StatusUnauthorized, send(now.Add(time.Hour), nil), "of the future")
			require.Equal(t, http.StatusUnauthorized, send(now, func(stamp, body string) (string, string) { return stamp, body + " " }), "another body")
			require.Equal(t, http.StatusUnauthorized, send(now.Add(-time.Hour), func(_, body string) (string, string) {
				return strconv.FormatInt(now.Unix(), 10), body
			}), "another time")
			require.Equal(t, http.StatusUnauthorized, send(now, func(_, body string) (string, string) { return "", body }), "no time")
		})
	}

	svix := senders["svix"]
	r := svix.request("svix", time.Now(), nil)
	delete(r.headers, "Svix-Id")
	require.Equal(t, http.StatusUnauthorized, b.do(r).status, "a header that is signed is missing")
}
