package resources

import (
	"net/netip"
	"path"
	"regexp"
	"strings"
)

// Limits of what documents name outside the gateway. A subject above NATS's control line of 4 KiB closes the connection
// for good, so that subjects stay far below it.
const (
	MaxSubject    = 256
	maxStreamName = 255
	maxHeaderName = 128
	maxListLength = 64
)

var (
	// headerName is a token of RFC 9110.
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	streamName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	// dataPath is a dotted path into JSON.
	dataPath = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
)

// ValidSubject reports whether the text is a NATS subject: tokens of printable characters without spaces, separated by
// dots. With wildcards, * may be a token and > the last one.
func ValidSubject(subject string, wildcards bool) bool {
	if len(subject) > MaxSubject || strings.ContainsFunc(subject, func(r rune) bool { return r == ' ' || isControl(r) }) {
		return false
	}

	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		switch {
		case token == "":
			return false
		case token == "*" && wildcards, token == ">" && wildcards && i == len(tokens)-1:
		case strings.ContainsAny(token, "*>"):
			return false
		}
	}

	return true
}

// validate checks what a sender may declare.
func (a *ApplyRule) validate(at string, errs *FieldErrors) {
	if a == nil {
		return
	}

	if len(a.Kinds) == 0 {
		errs.Add(at+".kinds", "the kinds that may be declared are required, as [VM]")
	}

	for i, name := range a.Kinds {
		if k, ok := KindByName(name); !ok || k.Nature != Declared {
			errs.Add(indexed(at+".kinds", i), "%q is not a kind that can be declared", name)
		}
	}

	if _, err := path.Match(a.Names, ""); err != nil || a.Names == "" {
		errs.Add(at+".names", "%q is not a pattern, as ci-*", a.Names)
	}

	if a.Path != "" && !dataPath.MatchString(a.Path) {
		errs.Add(at+".path", "%q is not a dotted path, as data.documents", a.Path)
	}
}

// validateFiles checks a list of files that hold secrets; policy says where they may be.
func validateFiles(at string, files []string, errs *FieldErrors) {
	if len(files) == 0 {
		errs.Add(at, "at least one file is required")
	}

	for i, file := range files {
		if file == "" {
			errs.Add(indexed(at, i), "a path is required")
		}

		validatePath(indexed(at, i), file, errs)
	}
}

// validatePrefixes checks a list of IP prefixes; an address alone means itself.
func validatePrefixes(at string, prefixes []string, errs *FieldErrors) {
	if len(prefixes) > maxListLength {
		errs.Add(at, "%d prefixes, at most %d are allowed", len(prefixes), maxListLength)
	}

	for i, text := range prefixes {
		if _, err := netip.ParseAddr(text); err == nil {
			continue
		}

		if p, err := netip.ParsePrefix(text); err != nil || p.Masked() != p {
			errs.Add(indexed(at, i), "%q is not a prefix of IP addresses, as 10.0.0.0/8", text)
		}
	}
}

// validateHeader checks the name of an HTTP header.
func validateHeader(at, name string, errs *FieldErrors) {
	if len(name) > maxHeaderName || !headerName.MatchString(name) {
		errs.Add(at, "%.64q is not the name of a header", name)
	}
}
