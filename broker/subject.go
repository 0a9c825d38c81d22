package broker

import (
	"fmt"
	"strings"
)

// maxSubject is the length of a subject that is still sent: a NATS server closes the connection of a client whose control
// line is longer than 4 KiB, for good, and the line holds the reply subject too.
const maxSubject = 1024

// ValidateSubject checks a subject before it is sent or subscribed: tokens separated by dots, none empty, printable
// without blanks. Wildcards (* and a last >) are allowed where wildcards is set. The client library accepts more than
// servers do, so everything that comes from names or payloads is checked here.
func ValidateSubject(subject string, wildcards bool) error {
	switch {
	case subject == "":
		return fmt.Errorf("a subject is required")
	case len(subject) > maxSubject:
		return fmt.Errorf("the subject %.20q… has %d bytes, at most %d are allowed", subject, len(subject), maxSubject)
	}

	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		switch {
		case token == "":
			return fmt.Errorf("the subject %q has an empty token", subject)
		case strings.ContainsFunc(token, notPrintable):
			return fmt.Errorf("the subject %q has a blank or a control character", subject)
		case !strings.ContainsAny(token, "*>"):
		case !wildcards:
			return fmt.Errorf("the subject %q has a wildcard", subject)
		case token == ">" && i != len(tokens)-1:
			return fmt.Errorf("in the subject %q, > is not the last token", subject)
		case token != "*" && token != ">":
			return fmt.Errorf("in the subject %q, the wildcard of %q is not a token of its own", subject, token)
		}
	}

	return nil
}

// EncodeToken makes one subject token of any name: what is not a letter, a digit, '-' or '_' becomes %XX, so that
// different names stay different. A name that is too long for a subject ends in a hash of the rest.
func EncodeToken(name string) string {
	const hexDigits = "0123456789ABCDEF"

	var b strings.Builder

	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)

			continue
		}

		b.WriteByte('%')
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&15])
	}

	if b.Len() == 0 {
		return "%"
	}

	if b.Len() > maxToken {
		return b.String()[:maxToken-len(shortHash(name))-1] + "~" + shortHash(name)
	}

	return b.String()
}

// maxToken leaves room for the rest of the subject.
const maxToken = 512

func notPrintable(r rune) bool { return r <= ' ' || r == 0x7f || r == 0xFFFD }
