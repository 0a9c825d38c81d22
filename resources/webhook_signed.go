package resources

import (
	"errors"
	"fmt"
	"strings"
)

// Names of what a sender may sign, in HMACAuth.SignedText.
const (
	SignedBody      = "body"
	SignedTimestamp = "timestamp"
	// signedHeader starts the name of a header.
	signedHeader = "header."
	// maxSignedText is far more than any sender's.
	maxSignedText = 1024
)

// SignedPart is a part of what is signed: a literal, the body, the timestamp, or the value of a header. Exactly one is set.
type SignedPart struct {
	Literal         string
	Body, Timestamp bool
	Header          string
}

// SignedParts returns what a sender signs, in order. Left out it is the body, and with a timestamp TIME.BODY.
func (a *HMACAuth) SignedParts() ([]SignedPart, error) {
	text := a.SignedText

	switch {
	case text != "":
	case a.TimestampHeader != "":
		text = "{timestamp}.{body}"
	default:
		text = "{body}"
	}

	if len(text) > maxSignedText {
		return nil, fmt.Errorf("%d characters, at most %d are allowed", len(text), maxSignedText)
	}

	parts, err := parseSigned(text)
	if err != nil {
		return nil, err
	}

	var bodies, timestamps int

	for _, p := range parts {
		if p.Body {
			bodies++
		}

		if p.Timestamp {
			timestamps++
		}
	}

	switch {
	case bodies != 1:
		return nil, errors.New("{body} is required, once: what is not signed could be anybody's")
	case timestamps > 0 && a.TimestampHeader == "":
		return nil, errors.New("{timestamp} needs timestampHeader, which says where it is")
	case timestamps == 0 && a.TimestampHeader != "":
		return nil, errors.New("{timestamp} is required with timestampHeader: a time that is not signed could be anybody's")
	}

	return parts, nil
}

// parseSigned reads a text with names in braces.
func parseSigned(text string) (parts []SignedPart, err error) {
	const known = "use {timestamp}, {body} or {header.NAME}"

	for text != "" {
		literal, rest, found := strings.Cut(text, "{")
		if literal != "" {
			parts = append(parts, SignedPart{Literal: literal})
		}

		if !found {
			break
		}

		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return nil, fmt.Errorf("{ without its }: %s", known)
		}

		header, isHeader := strings.CutPrefix(name, signedHeader)

		switch {
		case name == SignedBody:
			parts = append(parts, SignedPart{Body: true})
		case name == SignedTimestamp:
			parts = append(parts, SignedPart{Timestamp: true})
		case isHeader && headerName.MatchString(header):
			parts = append(parts, SignedPart{Header: header})
		default:
			return nil, fmt.Errorf("%.64q is not known: %s", "{"+name+"}", known)
		}

		text = after
	}

	return parts, nil
}
