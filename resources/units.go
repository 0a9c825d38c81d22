package resources

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"
	"time"
)

// Size is a number of bytes. Its text is 512MiB, 2GiB (also Mi, Gi), decimal 2GB, or bytes without a unit; the
// canonical text, which is what users are shown, has the largest unit that divides it.
type Size int64

// Units of sizes.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
	PiB Size = 1 << 50
)

var (
	sizePattern = regexp.MustCompile(`^([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)$`)
	sizeUnits   = map[string]int64{
		"": 1, "B": 1,
		"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "PiB": 1 << 50,
		"kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15,
	}
)

// unitsBySize are the units of the canonical text, the largest first.
var unitsBySize = []string{"PiB", "PB", "TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "kB"}

// ParseSize reads a size. Negative sizes, unknown units and fractions of a byte are errors.
func ParseSize(text string) (Size, error) {
	m := sizePattern.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, fmt.Errorf("%q is not a size: write a number and a unit, as 512MiB, 2GiB or 2GB", text)
	}

	unit, ok := sizeUnits[m[2]]
	if !ok {
		return 0, fmt.Errorf("%q has an unknown unit %q: use KiB, MiB, GiB, TiB or kB, MB, GB, TB", text, m[2])
	}

	n, _ := new(big.Rat).SetString(m[1])
	n.Mul(n, new(big.Rat).SetInt64(unit))

	if !n.IsInt() || !n.Num().IsInt64() {
		return 0, fmt.Errorf("%q is not a whole number of bytes up to %d", text, int64(math.MaxInt64))
	}

	return Size(n.Num().Int64()), nil
}

func (s Size) String() string {
	for _, u := range unitsBySize {
		if s != 0 && int64(s)%sizeUnits[u] == 0 {
			return fmt.Sprintf("%d%s", int64(s)/sizeUnits[u], u)
		}
	}

	return fmt.Sprintf("%d", int64(s))
}

// MarshalText implements encoding.TextMarshaler.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Size) UnmarshalText(text []byte) error {
	n, err := ParseSize(string(text))
	if err != nil {
		return err
	}

	*s = n

	return nil
}

// Duration is a length of time in Go's notation: 250ms, 60s, 2h30m. It is never negative.
type Duration time.Duration

// Std returns the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string {
	text := time.Duration(d).String()

	// "1h0m0s" reads better as "1h".
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}

	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}

	return text
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	n, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration: write a number and a unit, as 250ms, 60s or 2h30m", text)
	}

	if n < 0 {
		return fmt.Errorf("%q is negative", text)
	}

	*d = Duration(n)

	return nil
}

// JSON is any value, kept as JSON text.
type JSON []byte

// MarshalJSON implements json.Marshaler.
func (j JSON) MarshalJSON() ([]byte, error) {
	if len(j) == 0 {
		return []byte("null"), nil
	}

	return j, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (j *JSON) UnmarshalJSON(text []byte) error {
	*j = append((*j)[:0], text...)

	return nil
}

// Selector chooses objects by labels: all of Match must be equal. An empty selector chooses all. Where a selector is
// optional it is a pointer, and nil chooses none: an absent selector is never "all".
type Selector struct {
	Match map[string]string `protobuf:"1"`
}

// Matches reports whether the labels are chosen.
func (s *Selector) Matches(labels map[string]string) bool {
	if s == nil {
		return false
	}

	for k, v := range s.Match {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}

	return true
}

// MarshalJSON writes the selector as documents do: a map of labels.
func (s Selector) MarshalJSON() ([]byte, error) {
	if s.Match == nil {
		return []byte("{}"), nil
	}

	return json.Marshal(s.Match)
}

// UnmarshalJSON reads a map of labels.
func (s *Selector) UnmarshalJSON(text []byte) error { return json.Unmarshal(text, &s.Match) }

// Clone returns a copy that shares nothing.
func (s *Selector) Clone() *Selector {
	if s == nil {
		return nil
	}

	return &Selector{Match: cloneMap(s.Match)}
}
