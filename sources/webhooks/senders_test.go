package webhooks_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

// Payloads of the shape that their senders send, cut to what makes them one.
const (
	githubPush = `{"ref":"refs/heads/main","before":"6113728f27ae82c7b1a177c8d03f9e96e0adf246","after":"59b20b8d5c6ff8d09518216e87bea3f2a4fd4b0d",
"repository":{"id":186853002,"name":"shop","full_name":"acme/shop","private":false,"url":"https://github.com/acme/shop","default_branch":"main"},
"pusher":{"name":"ada","email":"ada@example.com"},"created":false,"deleted":false,"forced":false,
"commits":[{"id":"59b20b8d5c6ff8d09518216e87bea3f2a4fd4b0d","message":"Sell more","timestamp":"2026-05-01T10:00:00+02:00","added":[],"modified":["README.md"]}]}`

	githubPullRequest = `{"action":"opened","number":7,"pull_request":{"id":279147437,"number":7,"state":"open","title":"Sell less"},
"repository":{"full_name":"acme/shop","url":"https://api.github.com/repos/acme/shop"},"sender":{"login":"ada"}}`

	gitlabPush = `{"object_kind":"push","event_name":"push","before":"95790bf891e76fee5e1747ab589903a6a1f80f22","after":"da1560886d4f094c3e6c9ef40349f7d38b5d27d7",
"ref":"refs/heads/master","checkout_sha":"da1560886d4f094c3e6c9ef40349f7d38b5d27d7","user_username":"jsmith","project_id":15,
"project":{"id":15,"name":"Diaspora","web_url":"http://example.com/mike/diaspora"},
"repository":{"name":"Diaspora","url":"git@example.com:mike/diaspora.git","homepage":"http://example.com/mike/diaspora"},"commits":[],"total_commits_count":4}`

	gitlabMergeRequest = `{"object_kind":"merge_request","object_attributes":{"id":99,"iid":1,"action":"open","state":"opened"},
"repository":{"name":"Diaspora","homepage":"http://example.com/mike/diaspora"}}`

	giteaPush = `{"ref":"refs/heads/develop","before":"28e1879d029cb852e4844d9c718537df08844e03","after":"bffeb74224043ba2feb48d137756c8a9331c449a",
"compare_url":"http://localhost:3000/gitea/webhooks/compare/28e1879…bffeb74","commits":[{"id":"bffeb74224043ba2feb48d137756c8a9331c449a","message":"Webhooks Yay!"}],
"repository":{"id":140,"name":"webhooks","full_name":"gitea/webhooks","html_url":"http://localhost:3000/gitea/webhooks"},"pusher":{"login":"gitea"}}`

	bitbucketPush = `{"push":{"changes":[{"old":{"type":"branch","name":"main"},"new":{"type":"branch","name":"main","target":{"hash":"709d658dc5b6d6afcd46049c2f332ee3f515a67d"}}}]},
"actor":{"type":"user","display_name":"Emma"},"repository":{"type":"repository","full_name":"acme/shop","links":{"html":{"href":"https://bitbucket.org/acme/shop"}}}}`

	dockerHubPush = `{"callback_url":"https://registry.hub.docker.com/u/svendowideit/testhook/hook/2141b5bi5i5b02bec211i4eeih0242eg11000a/",
"push_data":{"pushed_at":1417566161,"pusher":"trustedbuilder","tag":"1.4"},
"repository":{"comment_count":0,"date_created":1417494799,"name":"testhook","namespace":"svendowideit","repo_name":"svendowideit/testhook","repo_url":"https://registry.hub.docker.com/u/svendowideit/testhook/","status":"Active"}}`

	alertmanager = `{"receiver":"gateway","status":"firing","alerts":[{"status":"firing","labels":{"alertname":"HostDown","instance":"node-7"},"annotations":{},
"startsAt":"2026-05-01T10:00:00.000Z","endsAt":"0001-01-01T00:00:00Z","generatorURL":"http://prometheus:9090/graph","fingerprint":"9c3f0b1a2d4e5f60"}],
"groupLabels":{"alertname":"HostDown"},"commonLabels":{"alertname":"HostDown"},"commonAnnotations":{},"externalURL":"http://alertmanager:9093",
"version":"4","groupKey":"{}:{alertname=\"HostDown\"}","truncatedAlerts":0}`

	grafana = `{"receiver":"gateway","status":"resolved","alerts":[{"status":"resolved","labels":{"alertname":"High memory usage","team":"blue"},"annotations":{},
"startsAt":"2026-05-01T10:00:00Z","endsAt":"2026-05-01T11:00:00Z","values":{"B":44.23943737541908},"fingerprint":"c6eadffa33fcdf37"}],
"groupLabels":{},"commonLabels":{"team":"blue"},"commonAnnotations":{},"externalURL":"https://play.grafana.org/","version":"1",
"groupKey":"{}:{alertname=\"High memory usage\"}","truncatedAlerts":0,"orgId":1,"title":"[RESOLVED] High memory usage","state":"ok","message":"**Resolved**"}`
)

func TestRealSendersDeliveriesBecomeEventsWithTheirIDTypeAndSubject(t *testing.T) {
	const token = "glsecret"

	b := newBench(t)
	files := []string{b.file(secret)}

	b.route("github", nil)
	b.route("github-form", func(s *resources.WebhookSpec) { s.Content = "form" })
	b.route("gitlab", func(s *resources.WebhookSpec) {
		s.Auth = resources.WebhookAuth{GitLab: &resources.SecretAuth{SecretFiles: []string{b.file(token)}}}
	})
	b.route("gitea", func(s *resources.WebhookSpec) {
		s.Auth = resources.WebhookAuth{Gitea: &resources.SecretAuth{SecretFiles: files}}
	})
	b.route("bitbucket", func(s *resources.WebhookSpec) {
		s.Auth = resources.WebhookAuth{HMAC: &resources.HMACAuth{
			Header: "X-Hub-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "sha256=", SecretFiles: files,
		}}
	})
	b.route("dockerhub", func(s *resources.WebhookSpec) { s.Auth = resources.WebhookAuth{None: true} })
	b.route("alertmanager", func(s *resources.WebhookSpec) {
		s.Auth = resources.WebhookAuth{Bearer: &resources.TokenAuth{TokenFiles: []string{b.file(token)}}}
	})
	b.route("grafana", func(s *resources.WebhookSpec) {
		s.Auth = resources.WebhookAuth{HMAC: &resources.HMACAuth{
			Header: "X-Grafana-Alerting-Signature", Algorithm: "sha256", Encoding: "hex", SecretFiles: files,
		}}
	})

	form := url.Values{"payload": {githubPush}}.Encode()

	for name, tc := range map[string]struct {
		route, body          string
		headers              map[string]string
		delivery             string
		typ, subject, origin string
	}{
		"GitHub, a push": {"github", githubPush, map[string]string{
			"User-Agent": "GitHub-Hookshot/044aadd", "X-GitHub-Event": "push", "X-GitHub-Hook-ID": "292430182",
			"X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-Hub-Signature-256": "sha256=" + sign(secret, githubPush),
		}, "72d3162e-cc78-11e3-81ab-4c9367dc0958", "com.github.push", "refs/heads/main", "https://github.com/acme/shop"},
		"GitHub, a push as a form": {"github-form", form, map[string]string{
			"Content-Type": "application/x-www-form-urlencoded", "X-GitHub-Event": "push",
			"X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0959", "X-Hub-Signature-256": "sha256=" + sign(secret, form),
		}, "72d3162e-cc78-11e3-81ab-4c9367dc0959", "com.github.push", "refs/heads/main", "https://github.com/acme/shop"},
		"GitHub, a pull request": {"github", githubPullRequest, map[string]string{
			"X-GitHub-Event": "pull_request", "X-GitHub-Delivery": "a", "X-Hub-Signature-256": "sha256=" + sign(secret, githubPullRequest),
		}, "a", "com.github.pull_request.opened", "7", "https://api.github.com/repos/acme/shop"},
		"GitLab, a push": {"gitlab", gitlabPush, map[string]string{
			"User-Agent": "GitLab/17.0", "X-Gitlab-Event": "Push Hook", "X-Gitlab-Instance": "https://gitlab.com", "X-Gitlab-Token": token,
			"X-Gitlab-Event-UUID": "13792a34-cac6-4fda-95a8-c58e00a3954e", "Idempotency-Key": "f5e57ded-1d2c-4a5f-8f6e-0a5f3e5f6a7b",
		}, "f5e57ded-1d2c-4a5f-8f6e-0a5f3e5f6a7b", "com.gitlab.push", "da1560886d4f094c3e6c9ef40349f7d38b5d27d7", "http://example.com/mike/diaspora"},
		"GitLab, a merge request": {"gitlab", gitlabMergeRequest, map[string]string{
			"X-Gitlab-Event": "Merge Request Hook", "X-Gitlab-Token": token, "X-Gitlab-Event-UUID": "u-1",
		}, "u-1", "com.gitlab.merge_request.open", "1", "http://example.com/mike/diaspora"},
		"Gitea, with GitHub's headers beside its own": {"gitea", giteaPush, map[string]string{
			"X-Gitea-Delivery": "f6266f16-1bf3-46a5-9ea4-602e06ead473", "X-Gitea-Event": "push", "X-Gitea-Event-Type": "push",
			"X-Gitea-Signature": sign(secret, giteaPush), "X-GitHub-Delivery": "f6266f16-1bf3-46a5-9ea4-602e06ead473", "X-GitHub-Event": "push",
			"X-Gogs-Delivery": "f6266f16-1bf3-46a5-9ea4-602e06ead473", "X-Gogs-Event": "push", "X-Hub-Signature-256": "sha256=" + sign(secret, giteaPush),
		}, "f6266f16-1bf3-46a5-9ea4-602e06ead473", "io.gitea.push", "refs/heads/develop", "http://localhost:3000/gitea/webhooks"},
		"Bitbucket, a push": {"bitbucket", bitbucketPush, map[string]string{
			"User-Agent": "Bitbucket-Webhooks/2.0", "X-Event-Key": "repo:push", "X-Hook-UUID": "{2f35cf05-6ae7-40d0-9a6b-3c3d5c7a1c11}",
			"X-Request-UUID": "ccf3d7a5-3b1e-4c61-a4f2-b40ed3e9a9f0", "X-Attempt-Number": "1", "X-Hub-Signature": "sha256=" + sign(secret, bitbucketPush),
		}, "ccf3d7a5-3b1e-4c61-a4f2-b40ed3e9a9f0", "org.bitbucket.repo.push", "main", "https://bitbucket.org/acme/shop"},
		"Docker Hub, a push": {"dockerhub", dockerHubPush, map[string]string{"User-Agent": "Go-http-client/1.1"},
			"", "com.docker.hub.push", "svendowideit/testhook:1.4", "https://registry.hub.docker.com/u/svendowideit/testhook/"},
		"Alertmanager": {"alertmanager", alertmanager, map[string]string{"User-Agent": "Alertmanager/0.27.0", "Authorization": "Bearer " + token},
			"", "io.prometheus.alertmanager.firing", `{}:{alertname="HostDown"}`, "http://alertmanager:9093"},
		"Grafana": {"grafana", grafana, map[string]string{"User-Agent": "Grafana", "X-Grafana-Alerting-Signature": sign(secret, grafana)},
			"", "com.grafana.alerting.resolved", `{}:{alertname="High memory usage"}`, "https://play.grafana.org/"},
	} {
		t.Run(name, func(t *testing.T) {
			headers := map[string]string{"Content-Type": "application/json"}
			for k, v := range tc.headers {
				headers[k] = v
			}

			res := b.do(request{path: "/hooks/" + tc.route, body: tc.body, headers: headers})
			require.Equal(t, http.StatusAccepted, res.status, res.Message)

			r, err := b.store.State().Get(t.Context(), resources.NewWebhookEvent(res.ID).Metadata())
			require.NoError(t, err)

			event := r.(*resources.WebhookEvent).TypedSpec().Event
			require.Equal(t, tc.typ, event.Type)
			require.Equal(t, tc.subject, event.Subject)
			require.Equal(t, tc.origin, event.CESource)
			require.Equal(t, tc.delivery, event.DeliveryID)

			again := b.do(request{path: "/hooks/" + tc.route, body: tc.body, headers: headers})
			require.Equal(t, http.StatusAccepted, again.status)
			require.Equal(t, tc.delivery != "", again.Dup, "only a sender that gives an id has its retries known")

			if tc.delivery != "" {
				require.Equal(t, resources.EventID(resources.SourceWebhook, tc.route, tc.delivery), res.ID)
				require.Equal(t, res.ID, again.ID)
			} else {
				require.NotEqual(t, res.ID, again.ID)
			}

			for _, secretHeader := range []string{"x-hub-signature", "x-hub-signature-256", "x-gitlab-token", "x-gitea-signature", "authorization", "x-grafana-alerting-signature"} {
				require.NotContains(t, event.Headers, secretHeader)
			}
		})
	}
}

func TestAPayloadGivesNoAttributeThatIsTooLongOrHasControlCharacters(t *testing.T) {
	b := newBench(t)
	b.route("deploy", nil)

	long := make([]byte, 2000)
	for i := range long {
		long[i] = 'x'
	}

	for _, body := range []string{`{"ref":"refs\u0000heads"}`, `{"ref":"` + string(long) + `"}`, `{"ref":7.5}`, `[]`} {
		res := b.github("deploy", body, nil)
		require.Equal(t, http.StatusAccepted, res.status)

		r, err := b.store.State().Get(t.Context(), resources.NewWebhookEvent(res.ID).Metadata())
		require.NoError(t, err)

		if body != `{"ref":7.5}` {
			require.Empty(t, r.(*resources.WebhookEvent).TypedSpec().Event.Subject, body[:20%len(body)])
		}
	}
}
