package api

import (
	"fmt"
	"strings"

	"gateway/resources"
)

// ParseSelector reads what -l takes: KEY=VALUE, several separated by commas; {} is all.
func ParseSelector(text string) (*resources.Selector, error) {
	selector := &resources.Selector{Match: map[string]string{}}
	if text == "{}" {
		return selector, nil
	}

	for part := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(part, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, fmt.Errorf("%q is not a selector: write KEY=VALUE, several separated by commas", text)
		}

		selector.Match[key] = strings.TrimSpace(strings.TrimPrefix(value, "="))
	}

	return selector, nil
}
