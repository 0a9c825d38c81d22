package webhooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"gateway/resources"
)

// verifier decides whether a request is of who it says. An error is the reason for the log; it holds no secret and nothing
// that the sender wrote.
type verifier interface {
	verify(r *http.Request, body []byte) error
	// ready returns why nothing can be verified at the moment.
	ready() error
	// headers are those that carry credentials and are never kept.
	headers() []string
}

// Reasons of refusals.
var (
	errNoSignature    = errors.New("the signature is missing")
	errWrongSignature = errors.New("the signature does not match")
	errNoTimestamp    = errors.New("the timestamp is missing or not a Unix time")
	errTimestamp      = errors.New("the timestamp is outside the replay window")
	errNoSignedHeader = errors.New("a header that is signed is missing")
	errNoToken        = errors.New("the token is missing")
	errWrongToken     = errors.New("the token does not match")
	errCertificate    = errors.New("no client certificate with an accepted name")
)

// newVerifier compiles the way that a document declares.
func newVerifier(spec *resources.WebhookSpec) (verifier, error) {
	auth, window := &spec.Auth, spec.ReplayWindow.Std()

	switch {
	case auth.GitHub != nil:
		return newHMAC(auth.GitHub.SecretFiles, resources.HMACAuth{Header: "X-Hub-Signature-256", Algorithm: "sha256", Encoding: "hex", Prefix: "sha256="}, 0)
	case auth.Gitea != nil:
		return newHMAC(auth.Gitea.SecretFiles, resources.HMACAuth{Header: "X-Gitea-Signature", Algorithm: "sha256", Encoding: "hex"}, 0)
	case auth.GitLab != nil:
		return &tokens{secrets: &secrets{paths: auth.GitLab.SecretFiles}, header: "X-Gitlab-Token"}, nil
	case auth.Standard != nil:
		return &standard{secrets: &secrets{paths: auth.Standard.SecretFiles}, window: window}, nil
	case auth.Bearer != nil:
		return &tokens{secrets: &secrets{paths: auth.Bearer.TokenFiles}, header: "Authorization", scheme: "Bearer "}, nil
	case auth.Basic != nil:
		return &basic{secrets: &secrets{paths: auth.Basic.PasswordFiles}, user: auth.Basic.Username}, nil
	case auth.MTLS != nil:
		return &certificate{names: auth.MTLS.Subjects}, nil
	case auth.HMAC != nil:
		return newHMAC(auth.HMAC.SecretFiles, *auth.HMAC, window)
	case auth.None:
		return anybody{}, nil
	}

	return nil, errors.New("spec.auth names no way; `none: true` lets everybody in")
}

// standard is Standard Webhooks 1.0: webhook-id, webhook-timestamp and webhook-signature, symmetric (v1) signatures.
type standard struct {
	*secrets

	window time.Duration
}

func (s *standard) headers() []string { return []string{"Webhook-Signature"} }

func (s *standard) ready() error {
	keys, err := s.get()
	if err != nil {
		return err
	}

	for _, key := range keys {
		if _, err := standardKey(key); err != nil {
			return err
		}
	}

	return nil
}

// standardKey decodes a secret: base64, with whsec_ before it.
func standardKey(secret []byte) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(secret), "whsec_"))
	if err != nil || len(key) == 0 {
		return nil, errors.New("a Standard Webhooks secret is base64, with whsec_ before it")
	}

	return key, nil
}

func (s *standard) verify(r *http.Request, body []byte) error {
	keys, err := s.get()
	if err != nil {
		return err
	}

	id, stamp, header := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), r.Header.Get("Webhook-Signature")
	if header == "" || id == "" {
		return errNoSignature
	}

	if err := inWindow(stamp, s.window); err != nil {
		return err
	}

	for _, secret := range keys {
		key, err := standardKey(secret)
		if err != nil {
			return err
		}

		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.", id, stamp)
		mac.Write(body)
		want := mac.Sum(nil)

		for part := range strings.FieldsSeq(header) {
			text, ok := strings.CutPrefix(part, "v1,")
			if !ok {
				continue
			}

			if given, err := base64.StdEncoding.DecodeString(text); err == nil && hmac.Equal(given, want) {
				return nil
			}
		}
	}

	return errWrongSignature
}

// tokens is a shared token in a header.
type tokens struct {
	*secrets

	header, scheme string
}

func (t *tokens) headers() []string { return []string{t.header} }

func (t *tokens) ready() error {
	_, err := t.get()

	return err
}

func (t *tokens) verify(r *http.Request, _ []byte) error {
	accepted, err := t.get()
	if err != nil {
		return err
	}

	given := r.Header.Get(t.header)
	if given == "" {
		return errNoToken
	}

	if t.scheme != "" {
		if len(given) < len(t.scheme) || !strings.EqualFold(given[:len(t.scheme)], t.scheme) {
			return errNoToken
		}

		given = strings.TrimSpace(given[len(t.scheme):])
	}

	if !anyEqual(accepted, given) {
		return errWrongToken
	}

	return nil
}

// anyEqual compares in a time that depends on lengths alone: digests are compared, not the secrets.
func anyEqual(accepted [][]byte, given string) bool {
	sum, found := sha256.Sum256([]byte(given)), 0

	for _, a := range accepted {
		want := sha256.Sum256(a)
		found |= subtle.ConstantTimeCompare(sum[:], want[:])
	}

	return found == 1
}

// basic is HTTP basic authentication (RFC 7617).
type basic struct {
	*secrets

	user string
}

func (b *basic) headers() []string { return []string{"Authorization"} }

func (b *basic) ready() error {
	_, err := b.get()

	return err
}

func (b *basic) verify(r *http.Request, _ []byte) error {
	accepted, err := b.get()
	if err != nil {
		return err
	}

	user, password, ok := r.BasicAuth()
	if !ok {
		return errNoToken
	}

	// Both are compared whatever the other says.
	if sameUser, samePassword := anyEqual([][]byte{[]byte(b.user)}, user), anyEqual(accepted, password); !sameUser || !samePassword {
		return errWrongToken
	}

	return nil
}

// certificate accepts clients whose verified certificate has one of the names.
type certificate struct{ names []string }

func (c *certificate) headers() []string { return nil }
func (c *certificate) ready() error      { return nil }

func (c *certificate) verify(r *http.Request, _ []byte) error {
	// VerifiedChains is empty unless http.tls.clientCA signed the certificate.
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return errCertificate
	}

	leaf := r.TLS.VerifiedChains[0][0]
	for _, name := range c.names {
		if leaf.Subject.CommonName == name || slices.Contains(leaf.DNSNames, name) {
			return nil
		}
	}

	return errCertificate
}

// anybody verifies nothing: `none: true`.
type anybody struct{}

func (anybody) headers() []string                  { return nil }
func (anybody) ready() error                       { return nil }
func (anybody) verify(*http.Request, []byte) error { return nil }
