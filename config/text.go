package config

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	bomUTF8    = []byte{0xEF, 0xBB, 0xBF}
	bomUTF16LE = []byte{0xFF, 0xFE}
	bomUTF16BE = []byte{0xFE, 0xFF}
)

// normalize returns the text as UTF-8 without a byte order mark, or the first place where it is no text. UTF-16 is known
// by its byte order mark. The parser would refuse the same bytes, but without saying where they are.
func normalize(file string, data []byte) ([]byte, *Error) {
	switch {
	case bytes.HasPrefix(data, bomUTF8):
		data = data[len(bomUTF8):]
	case bytes.HasPrefix(data, bomUTF16LE):
		data = fromUTF16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, bomUTF16BE):
		data = fromUTF16(data[2:], binary.BigEndian)
	}

	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])

		var fault string

		switch {
		case r == utf8.RuneError && size == 1:
			fault = fmt.Sprintf("byte 0x%02x is not UTF-8: save the file as UTF-8", data[i])
		case r == 0:
			fault = "a NUL byte: this is not text in UTF-8 (UTF-16 needs a byte order mark)"
		case !isPrintable(r):
			fault = fmt.Sprintf("control character U+%04X is not allowed: in a quoted string write it as an escape", r)
		}

		if fault != "" {
			line, column := position(data, i)

			return nil, &Error{File: file, Line: line, Column: column, Message: fault}
		}

		i += size
	}

	return data, nil
}

// isPrintable reports whether YAML 1.2 allows the character in a document (c-printable), a byte order mark apart.
func isPrintable(r rune) bool {
	switch {
	case r == '\t', r == '\n', r == '\r', r == 0x85:
		return true
	case r < 0x20, r >= 0x7f && r < 0xa0, r == 0xfeff, r == 0xfffe, r == 0xffff:
		return false
	}

	return true
}

// fromUTF16 returns UTF-16 as UTF-8. A lone surrogate or an odd last byte becomes a byte that is no UTF-8, so that it is
// refused at its position as any other.
func fromUTF16(data []byte, order binary.ByteOrder) []byte {
	out := make([]byte, 0, len(data)/2*3)

	for len(data) >= 2 {
		r := rune(order.Uint16(data))
		data = data[2:]

		if utf16.IsSurrogate(r) {
			pair := utf8.RuneError
			if len(data) >= 2 {
				pair = utf16.DecodeRune(r, rune(order.Uint16(data)))
			}

			if pair == utf8.RuneError {
				out = append(out, 0xFF)

				continue
			}

			r, data = pair, data[2:]
		}

		out = utf8.AppendRune(out, r)
	}

	if len(data) > 0 {
		out = append(out, 0xFF)
	}

	return out
}

// position returns the line and the column, in characters, of the byte at offset. Lines end with LF, CR or both.
func position(text []byte, offset int) (line, column int) {
	before := text[:min(offset, len(text))]
	line, start := 1, 0

	for i, b := range before {
		if b == '\n' || b == '\r' && (i+1 >= len(text) || text[i+1] != '\n') {
			line, start = line+1, i+1
		}
	}

	return line, utf8.RuneCount(before[start:]) + 1
}
