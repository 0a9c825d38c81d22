package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Percent is a share: 25%, 0 to 100.
type Percent float64

// Of returns this share of n.
func (p Percent) Of(n int) float64 { return float64(p) / 100 * float64(n) }

// MarshalText implements encoding.TextMarshaler.
func (p Percent) MarshalText() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(p), 'f', -1, 64) + "%"), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Percent) UnmarshalText(text []byte) error {
	f, err := strconv.ParseFloat(strings.TrimSuffix(string(text), "%"), 64)
	if err != nil || !strings.HasSuffix(string(text), "%") || !(f >= 0 && f <= 100) {
		return fmt.Errorf("%q is not a share: write 25%%, 0%% to 100%%", text)
	}

	*p = Percent(f)

	return nil
}
