package webhooks

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // some senders offer nothing else
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gateway/resources"
)

// signature is an HMAC over the bytes as sent, and over what the sender puts before or behind them.
type signature struct {
	*secrets

	rule   resources.HMACAuth
	signed []resources.SignedPart
	hash   func() hash.Hash
	window time.Duration
}

// newHMAC compiles a rule. An error is one that the rule's validation tells.
func newHMAC(paths []string, rule resources.HMACAuth, window time.Duration) (*signature, error) {
	hashes := map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

	signed, err := rule.SignedParts()
	if err != nil {
		return nil, err
	}

	return &signature{secrets: &secrets{paths: paths}, rule: rule, signed: signed, hash: hashes[rule.Algorithm], window: window}, nil
}

func (s *signature) headers() []string { return []string{s.rule.Header} }

func (s *signature) ready() error {
	_, err := s.get()

	return err
}

func (s *signature) verify(r *http.Request, body []byte) error {
	keys, err := s.get()
	if err != nil {
		return err
	}

	given, stamp := s.parse(r.Header)
	if len(given) == 0 {
		return errNoSignature
	}

	if s.rule.TimestampHeader != "" {
		if err := inWindow(stamp, s.window); err != nil {
			return err
		}
	}

	signed, err := s.text(r.Header, stamp, body)
	if err != nil {
		return err
	}

	for _, key := range keys {
		mac := hmac.New(s.hash, key)
		for _, part := range signed {
			mac.Write(part)
		}

		want := mac.Sum(nil)
		for _, g := range given {
			if hmac.Equal(g, want) {
				return nil
			}
		}
	}

	return errWrongSignature
}

// text is what the sender signed, in parts.
func (s *signature) text(h http.Header, stamp string, body []byte) ([][]byte, error) {
	parts := make([][]byte, 0, len(s.signed))

	for _, p := range s.signed {
		switch {
		case p.Body:
			parts = append(parts, body)
		case p.Timestamp:
			parts = append(parts, []byte(stamp))
		case p.Header != "":
			value := h.Get(p.Header)
			if value == "" {
				return nil, errNoSignedHeader
			}

			parts = append(parts, []byte(value))
		default:
			parts = append(parts, []byte(p.Literal))
		}
	}

	return parts, nil
}

// parse returns the signatures that a header carries, several while a sender rotates its secret, and the timestamp. Parts of
// a header are parted by commas, as Stripe does, or semicolons, as Paddle.
func (s *signature) parse(h http.Header) (given [][]byte, stamp string) {
	combined := http.CanonicalHeaderKey(s.rule.TimestampHeader) == http.CanonicalHeaderKey(s.rule.Header)
	if !combined {
		stamp = h.Get(s.rule.TimestampHeader)
	}

	for _, value := range h.Values(s.rule.Header) {
		for part := range strings.FieldsFuncSeq(value, func(c rune) bool { return c == ',' || c == ';' }) {
			part = strings.TrimSpace(part)

			if text, ok := timePart(part); ok && combined {
				stamp = text

				continue
			}

			text, ok := strings.CutPrefix(part, s.rule.Prefix)
			if !ok {
				continue
			}

			if sum, err := s.decode(text); err == nil && len(sum) > 0 {
				given = append(given, sum)
			}
		}
	}

	return given, stamp
}

// timePart returns the timestamp of a part t=TIME or ts=TIME.
func timePart(part string) (string, bool) {
	if text, ok := strings.CutPrefix(part, "t="); ok {
		return text, true
	}

	return strings.CutPrefix(part, "ts=")
}

func (s *signature) decode(text string) ([]byte, error) {
	if s.rule.Encoding == "base64" {
		return base64.StdEncoding.DecodeString(text)
	}

	return hex.DecodeString(text) // takes capitals too
}

// milliseconds is from where on a Unix time is taken to be in milliseconds: as seconds it is in the year 5138.
const milliseconds = 100_000_000_000

// inWindow checks a Unix time in seconds, or in milliseconds.
func inWindow(stamp string, window time.Duration) error {
	number, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return errNoTimestamp
	}

	at := time.Unix(number, 0)
	if number >= milliseconds {
		at = time.UnixMilli(number)
	}

	if age := time.Since(at).Abs(); age > window {
		return errTimestamp
	}

	return nil
}
