package resources

import (
	"fmt"
	"strings"
	"time"
)

// Limits of a webhook. 64 MiB of body times the 1024 at once would be 64 GiB: who raises one lowers the other.
const (
	maxBody         = 64 * MiB
	maxConcurrency  = 1024
	minTimeout      = time.Second
	maxTimeout      = 5 * time.Minute
	maxReplayWindow = 24 * time.Hour
)

// Validate implements Validator. Whether policy allows the files of secrets is the admission's question.
func (s *WebhookSpec) Validate() (errs FieldErrors) {
	s.Auth.validate(&errs)

	if w := s.ReplayWindow.Std(); w < time.Second || w > maxReplayWindow {
		errs.Add("spec.replayWindow", "%s is not between 1s and %s", s.ReplayWindow, Duration(maxReplayWindow))
	}

	validatePrefixes("spec.allow", s.Allow, &errs)
	validatePrefixes("spec.trustedProxies", s.TrustedProxies, &errs)

	if s.DeliveryID != "" {
		validateHeader("spec.deliveryId", s.DeliveryID, &errs)
	}

	s.Limits.validate(&errs)
	s.Target.validate("spec.target", &errs)
	s.Apply.validate("spec.apply", &errs)

	return errs
}

func (l *WebhookLimits) validate(errs *FieldErrors) {
	if l.Body < 1 || l.Body > maxBody {
		errs.Add("spec.limits.body", "%s is not between 1 byte and %s", l.Body, maxBody)
	}

	if l.Concurrency < 1 || l.Concurrency > maxConcurrency {
		errs.Add("spec.limits.concurrency", "%d is not between 1 and %d", l.Concurrency, maxConcurrency)
	}

	if l.Rate.PerSecond() <= 0 {
		errs.Add("spec.limits.rate", "a rate is required, as 100/s")
	}

	if t := l.Timeout.Std(); t < minTimeout || t > maxTimeout {
		errs.Add("spec.limits.timeout", "%s is not between %s and %s", l.Timeout, Duration(minTimeout), Duration(maxTimeout))
	}

	if l.Overload != 429 && l.Overload != 503 {
		errs.Add("spec.limits.overload", "%d is neither 429 nor 503", l.Overload)
	}
}

// Ways returns the names of the ways of authentication that are set, in the order of their fields.
func (a *WebhookAuth) Ways() []string {
	var ways []string

	for _, way := range []struct {
		name string
		set  bool
	}{
		{"github", a.GitHub != nil},
		{"gitlab", a.GitLab != nil},
		{"gitea", a.Gitea != nil},
		{"standard", a.Standard != nil},
		{"bearer", a.Bearer != nil},
		{"basic", a.Basic != nil},
		{"mtls", a.MTLS != nil},
		{"hmac", a.HMAC != nil},
		{"none", a.None},
	} {
		if way.set {
			ways = append(ways, way.name)
		}
	}

	return ways
}

func (a *WebhookAuth) validate(errs *FieldErrors) {
	switch ways := a.Ways(); len(ways) {
	case 0:
		errs.Add("spec.auth", "a way of authentication is required, as github, bearer or hmac; `none: true` lets everybody send")
	case 1:
	default:
		errs.Add("spec.auth", "exactly one way of authentication is allowed, not %s", strings.Join(ways, " and "))
	}

	for _, way := range []struct {
		name   string
		secret *SecretAuth
	}{{"github", a.GitHub}, {"gitlab", a.GitLab}, {"gitea", a.Gitea}, {"standard", a.Standard}} {
		if way.secret != nil {
			validateFiles("spec.auth."+way.name+".secretFiles", way.secret.SecretFiles, errs)
		}
	}

	if a.Bearer != nil {
		validateFiles("spec.auth.bearer.tokenFiles", a.Bearer.TokenFiles, errs)
	}

	if a.Basic != nil {
		if a.Basic.Username == "" || strings.ContainsRune(a.Basic.Username, ':') || strings.ContainsFunc(a.Basic.Username, isControl) {
			errs.Add("spec.auth.basic.username", "a name without ':' is required")
		}

		validateFiles("spec.auth.basic.passwordFiles", a.Basic.PasswordFiles, errs)
	}

	if a.MTLS != nil {
		if len(a.MTLS.Subjects) == 0 {
			errs.Add("spec.auth.mtls.subjects", "at least one name of a client is required")
		}

		for i, subject := range a.MTLS.Subjects {
			if subject == "" {
				errs.Add(indexed("spec.auth.mtls.subjects", i), "a name is required")
			}
		}
	}

	if a.HMAC != nil {
		validateHeader("spec.auth.hmac.header", a.HMAC.Header, errs)

		if a.HMAC.TimestampHeader != "" {
			validateHeader("spec.auth.hmac.timestampHeader", a.HMAC.TimestampHeader, errs)
		}

		if _, err := a.HMAC.SignedParts(); err != nil {
			errs.Add("spec.auth.hmac.signedText", "%s", err)
		}

		validateFiles("spec.auth.hmac.secretFiles", a.HMAC.SecretFiles, errs)
	}
}

// indexed is the path of a list's element.
func indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
