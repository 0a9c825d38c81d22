package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// maxDepth is how deep JSON may be nested.
const maxDepth = 128

// IsJSON reports whether a media type (in lower case, without parameters) is JSON.
func IsJSON(typ string) bool {
	return typ == "application/json" || typ == "text/json" || strings.HasSuffix(typ, "+json")
}

// CheckJSON refuses what encoding/json would quietly mend: invalid UTF-8, keys that are there twice, and nesting without
// bound. Numbers stay as they were written, because the bytes are kept.
func CheckJSON(body []byte) error {
	if !utf8.Valid(body) {
		return errors.New("it has invalid UTF-8")
	}

	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()

	if err := checkValue(decoder, 0); err != nil {
		return err
	}

	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the value")
	}

	return nil
}

func checkValue(decoder *json.Decoder, depth int) error {
	token, err := decoder.Token()

	switch {
	case errors.Is(err, io.EOF):
		return errors.New("it is empty or cut off")
	case err != nil:
		return fmt.Errorf("at byte %d: %w", decoder.InputOffset(), err)
	}

	delim, ok := token.(json.Delim)
	if !ok {
		return nil
	}

	if depth++; depth > maxDepth {
		return fmt.Errorf("it is nested deeper than %d levels", maxDepth)
	}

	seen := map[string]bool{}

	for decoder.More() {
		if delim == '{' {
			key, err := decoder.Token()
			if err != nil {
				return fmt.Errorf("at byte %d: %w", decoder.InputOffset(), err)
			}

			name, _ := key.(string)
			if seen[name] {
				return fmt.Errorf("the key %.40q is there twice", name)
			}

			seen[name] = true
		}

		if err := checkValue(decoder, depth); err != nil {
			return err
		}
	}

	if _, err := decoder.Token(); err != nil {
		return fmt.Errorf("at byte %d: %w", decoder.InputOffset(), err)
	}

	return nil
}
