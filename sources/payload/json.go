package payload

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxDepth is how deep JSON may be nested.
const maxDepth = 128

// IsJSON reports whether a media type (in lower case, without parameters) is JSON.
func IsJSON(typ string) bool {
	return typ == "application/json" || typ == "text/json" || strings.HasSuffix(typ, "+json")
}

// Faults that name no position.
var (
	errUTF8    = errors.New("it has invalid UTF-8")
	errCut     = errors.New("it is empty or cut off")
	errTrailer = errors.New("there is more after the value")
	errDeep    = fmt.Errorf("it is nested deeper than %d levels", maxDepth)
)

// scanners are used again, because every webhook's body passes through one.
var scanners = sync.Pool{New: func() any { return &scanner{} }}

// CheckJSON refuses what encoding/json would quietly mend: invalid UTF-8, keys that are there twice, and nesting without
// bound. Numbers stay as they were written, because the bytes are kept. A body without escapes in its keys costs no memory.
func CheckJSON(body []byte) error {
	if !utf8.Valid(body) {
		return errUTF8
	}

	s, ok := scanners.Get().(*scanner)
	if !ok {
		s = &scanner{}
	}

	defer scanners.Put(s)
	defer s.release()

	s.data = body

	if err := s.value(0); err != nil {
		return err
	}

	if s.skipSpace(); s.pos < len(s.data) {
		return errTrailer
	}

	return nil
}

// scanner walks over one JSON text (RFC 8259), whose bytes are valid UTF-8.
type scanner struct {
	data []byte
	pos  int
	keys keyStack
}

// release lets go of the text.
func (s *scanner) release() {
	s.data, s.pos = nil, 0
	s.keys.reset()
}

// fault is an error at the current position.
func (s *scanner) fault(expected string) error {
	if s.pos >= len(s.data) {
		return errCut
	}

	return fmt.Errorf("at byte %d: %q instead of %s", s.pos, s.data[s.pos], expected)
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// next skips blanks and returns the byte that follows; 0 at the end, which no value begins with.
func (s *scanner) next() byte {
	s.skipSpace()

	if s.pos >= len(s.data) {
		return 0
	}

	return s.data[s.pos]
}

// value reads one value; depth is how many arrays and objects are around it.
func (s *scanner) value(depth int) error {
	switch c := s.next(); {
	case c == '{':
		return s.object(depth + 1)
	case c == '[':
		return s.array(depth + 1)
	case c == '"':
		_, err := s.text()

		return err
	case c == '-' || isDigit(c):
		return s.number()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	default:
		return s.fault("a value")
	}
}

func (s *scanner) array(depth int) error {
	if depth > maxDepth {
		return errDeep
	}

	s.pos++

	if s.next() == ']' {
		s.pos++

		return nil
	}

	for {
		if err := s.value(depth); err != nil {
			return err
		}

		switch s.next() {
		case ',':
			s.pos++
		case ']':
			s.pos++

			return nil
		default:
			return s.fault("a comma or ]")
		}
	}
}

func (s *scanner) object(depth int) error {
	if depth > maxDepth {
		return errDeep
	}

	s.pos++

	if s.next() == '}' {
		s.pos++

		return nil
	}

	s.keys.open()
	defer s.keys.close()

	for {
		if err := s.member(depth); err != nil {
			return err
		}

		switch s.next() {
		case ',':
			s.pos++
		case '}':
			s.pos++

			return nil
		default:
			return s.fault("a comma or }")
		}
	}
}

// member reads a key and its value.
func (s *scanner) member(depth int) error {
	if s.next() != '"' {
		return s.fault("a key")
	}

	start := s.pos

	escaped, err := s.text()
	if err != nil {
		return err
	}

	if err := s.keys.add(s.data[start:s.pos], escaped); err != nil {
		return err
	}

	if s.next() != ':' {
		return s.fault("a colon")
	}

	s.pos++

	return s.value(depth)
}

// text reads a string and reports whether it has escapes.
func (s *scanner) text() (escaped bool, err error) {
	s.pos++

	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++

			return escaped, nil
		case c == '\\':
			escaped = true

			if err := s.escape(); err != nil {
				return false, err
			}
		case c < ' ':
			return false, s.fault("an escape: control characters are not allowed in strings")
		default:
			s.pos++
		}
	}

	return false, errCut
}

// escape reads a backslash and what it stands before.
func (s *scanner) escape() error {
	s.pos++

	if s.pos >= len(s.data) {
		return errCut
	}

	switch s.data[s.pos] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos++

		return nil
	case 'u':
		s.pos++
	default:
		return s.fault("an escape")
	}

	for range 4 {
		if s.pos >= len(s.data) || !isHex(s.data[s.pos]) {
			return s.fault("four hexadecimal digits")
		}

		s.pos++
	}

	return nil
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?
func (s *scanner) number() error {
	if s.data[s.pos] == '-' {
		s.pos++
	}

	if s.pos < len(s.data) && s.data[s.pos] == '0' {
		s.pos++
	} else if err := s.digits(); err != nil {
		return err
	}

	if s.pos < len(s.data) && s.data[s.pos] == '.' {
		s.pos++

		if err := s.digits(); err != nil {
			return err
		}
	}

	if s.pos < len(s.data) && (s.data[s.pos] == 'e' || s.data[s.pos] == 'E') {
		s.pos++

		if s.pos < len(s.data) && (s.data[s.pos] == '+' || s.data[s.pos] == '-') {
			s.pos++
		}

		return s.digits()
	}

	return nil
}

// digits reads one or more.
func (s *scanner) digits() error {
	if s.pos >= len(s.data) || !isDigit(s.data[s.pos]) {
		return s.fault("a digit")
	}

	for s.pos < len(s.data) && isDigit(s.data[s.pos]) {
		s.pos++
	}

	return nil
}

func (s *scanner) word(word string) error {
	for i := range len(word) {
		if s.pos >= len(s.data) || s.data[s.pos] != word[i] {
			return s.fault(word)
		}

		s.pos++
	}

	return nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
