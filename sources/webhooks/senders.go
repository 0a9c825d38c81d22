package webhooks

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"gateway/resources"
	"gateway/sources/payload"
)

// maxAttribute bounds what becomes an attribute of an event from a payload.
const maxAttribute = 1024

// sender is a program whose deliveries are told from others by a header. Types and subjects are those of the CloudEvents
// adapters for GitHub and GitLab (github.com/cloudevents/spec, adapters), and made alike for the others.
type sender struct {
	// event is the header that says what happened, prefix what its type begins with.
	event, prefix string
	// delivery are the headers with the delivery's id, the best first: one that a retry has again.
	delivery []string
	// source is the path to the URL of what it happened to.
	source []string
	// kind makes the end of the type and the subject from the header's value and the payload.
	kind func(event string, data []byte) (kind, subject string)
}

// senders in the order in which they are asked: Gitea sends the headers of GitHub too.
var senders = []sender{
	{
		event: "X-Gitea-Event", prefix: "io.gitea.", delivery: []string{"X-Gitea-Delivery"},
		source: []string{"repository", "html_url"}, kind: forgeKind,
	},
	{
		event: "X-GitHub-Event", prefix: "com.github.", delivery: []string{"X-GitHub-Delivery"},
		source: []string{"repository", "url"}, kind: forgeKind,
	},
	{
		// The idempotency key is the same for each retry of a delivery.
		event: "X-Gitlab-Event", prefix: "com.gitlab.", delivery: []string{"Idempotency-Key", "X-Gitlab-Event-UUID"},
		source: []string{"repository", "homepage"}, kind: gitlabKind,
	},
	{
		event: "X-Event-Key", prefix: "org.bitbucket.", delivery: []string{"X-Request-UUID", "X-Request-Id"},
		source: []string{"repository", "links", "html", "href"}, kind: bitbucketKind,
	},
}

// describeSender sets what is known of a sender's events, and reports whether it knows the sender.
func describeSender(h http.Header, data []byte, a *resources.EventAttributes) bool {
	for i := range senders {
		s := &senders[i]

		event := h.Get(s.event)
		if event == "" {
			continue
		}

		kind, subject := s.kind(word(event), data)
		a.Type, a.Subject, a.CESource = attribute(s.prefix+kind), attribute(subject), attribute(payload.Lookup(data, s.source...))

		for _, name := range s.delivery {
			if a.DeliveryID = h.Get(name); a.DeliveryID != "" {
				break
			}
		}

		return true
	}

	return describeBody(data, a)
}

// describeBody knows senders by their payload that send no header of their own, and no id: each delivery is an event.
func describeBody(data []byte, a *resources.EventAttributes) bool {
	get := func(path ...string) string { return payload.Lookup(data, path...) }

	switch {
	case len(data) == 0 || data[0] != '{':
		return false
	case get("groupKey") != "" && get("receiver") != "" && get("status") != "":
		// Grafana sends what Alertmanager sends, with the organisation.
		a.Type = "io.prometheus.alertmanager."
		if get("orgId") != "" {
			a.Type = "com.grafana.alerting."
		}

		a.Type = attribute(a.Type + word(get("status")))
		a.Subject, a.CESource = attribute(get("groupKey")), attribute(get("externalURL"))
	case get("push_data", "tag") != "" && get("repository", "repo_name") != "":
		a.Type, a.CESource = "com.docker.hub.push", attribute(get("repository", "repo_url"))
		a.Subject = attribute(get("repository", "repo_name") + ":" + get("push_data", "tag"))
	default:
		return false
	}

	return true
}

// forgeSubjects are the paths to what events of GitHub and Gitea are about.
var forgeSubjects = map[string][]string{
	"push": {"ref"}, "create": {"ref"}, "delete": {"ref"}, "pull_request": {"number"}, "issues": {"issue", "number"},
	"issue_comment": {"comment", "id"}, "release": {"release", "id"}, "deployment": {"deployment", "id"}, "status": {"sha"},
	"workflow_run": {"workflow_run", "id"}, "check_run": {"check_run", "id"}, "check_suite": {"check_suite", "id"},
	"registry_package": {"registry_package", "html_url"}, "package": {"package", "id"},
}

// forgeKind: pull_request.opened.
func forgeKind(event string, data []byte) (kind, subject string) {
	kind = event

	switch event {
	case "push", "ping", "status", "deployment":
	case "create", "delete":
		kind = dotted(kind, payload.Lookup(data, "ref_type"))
	default:
		kind = dotted(kind, payload.Lookup(data, "action"))
	}

	if path := forgeSubjects[event]; path != nil {
		subject = payload.Lookup(data, path...)
	}

	return kind, subject
}

// gitlabKind: "Merge Request Hook" is merge_request.open.
func gitlabKind(event string, data []byte) (kind, subject string) {
	kind = strings.TrimSuffix(event, "_hook")
	get := func(path ...string) string { return payload.Lookup(data, path...) }

	switch kind {
	case "push":
		// The commit, or the branch where it was deleted.
		if subject = get("checkout_sha"); subject == "" {
			subject = get("ref")
		}

		return kind, subject
	case "tag_push":
		return kind, get("ref")
	case "job":
		return dotted(kind, get("build_status")), get("build_id")
	case "pipeline":
		return dotted(kind, get("object_attributes", "status")), get("object_attributes", "id")
	case "note":
		return dotted(kind, get("object_attributes", "noteable_type")), get("object_attributes", "id")
	}

	if subject = get("object_attributes", "iid"); subject == "" {
		subject = get("object_attributes", "id")
	}

	return dotted(kind, get("object_attributes", "action")), subject
}

// bitbucketKind: repo:push is repo.push.
func bitbucketKind(event string, data []byte) (kind, subject string) {
	kind = strings.ReplaceAll(event, ":", ".")

	for _, path := range [][]string{
		{"push", "changes", "0", "new", "name"}, {"push", "changes", "0", "old", "name"}, {"pullrequest", "id"}, {"changes", "0", "refId"},
		{"pullRequest", "id"}, {"issue", "id"},
	} {
		if subject = payload.Lookup(data, path...); subject != "" {
			break
		}
	}

	return kind, subject
}

func dotted(kind, more string) string {
	if more = word(more); more == "" {
		return kind
	}

	return kind + "." + more
}

// word is a text as it stands in a type: "Merge Request Hook" is merge_request_hook.
func word(text string) string { return strings.ReplaceAll(strings.ToLower(text), " ", "_") }

// attribute is a text as an attribute may be: bounded, UTF-8 without control characters. One that is not is left out.
func attribute(text string) string {
	if len(text) > maxAttribute || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return ""
	}

	return text
}
