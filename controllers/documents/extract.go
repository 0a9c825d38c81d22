package documents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gateway/config"
)

// documentsOf decodes the documents of a sender's data: of all of it, or of the member that path (dotted, with numbers for
// elements) leads to. A member that is a string holds the text of documents, YAML or JSON; one that is an object or an array
// is a document, or several.
func documentsOf(name string, data []byte, path string) ([]config.Document, error) {
	if path == "" {
		if text := bytes.TrimSpace(data); len(text) > 0 && text[0] == '[' {
			return config.DecodeJSON(name, data)
		}

		return config.Decode(name, data)
	}

	part, err := member(data, path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	if part[0] != '"' {
		return config.DecodeJSON(name, part)
	}

	var text string
	if err := json.Unmarshal(part, &text); err != nil {
		return nil, fmt.Errorf("%s: error reading %s: %w", name, path, err)
	}

	return config.Decode(name, []byte(text))
}

// member returns the JSON of the member that path leads to. Numbers stay as they are written.
func member(data []byte, path string) (json.RawMessage, error) {
	if err := isJSON(data); err != nil {
		return nil, err
	}

	part := json.RawMessage(bytes.TrimSpace(data))

	for i, key := range strings.Split(path, ".") {
		at := strings.Join(strings.Split(path, ".")[:i+1], ".")

		switch part[0] {
		case '{':
			var members map[string]json.RawMessage
			if err := json.Unmarshal(part, &members); err != nil {
				return nil, fmt.Errorf("error reading %s: %w", at, err)
			}

			next, ok := members[key]
			if !ok {
				return nil, fmt.Errorf("the data has no %s", at)
			}

			part = next
		case '[':
			var elements []json.RawMessage
			if err := json.Unmarshal(part, &elements); err != nil {
				return nil, fmt.Errorf("error reading %s: %w", at, err)
			}

			n, err := strconv.Atoi(key)
			if err != nil || n < 0 || n >= len(elements) {
				return nil, fmt.Errorf("the data has no %s", at)
			}

			part = elements[n]
		default:
			return nil, fmt.Errorf("the data has no %s", at)
		}
	}

	return part, nil
}

// isJSON reports why data is not exactly one JSON value.
func isJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))

	var value json.RawMessage
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("the data is not JSON: %w", err)
	}

	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the data is more than one JSON value")
	}

	return nil
}
