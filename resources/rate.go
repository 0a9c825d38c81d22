package resources

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of events per unit of time: 100/s, 30/m, 1000/h.
type Rate struct {
	Count int64    `protobuf:"1"`
	Per   Duration `protobuf:"2"`
}

// PerSecond returns the rate as events per second.
func (r Rate) PerSecond() float64 {
	if r.Per <= 0 {
		return 0
	}

	return float64(r.Count) / r.Per.Std().Seconds()
}

func (r Rate) String() string {
	unit := map[Duration]string{Duration(time.Second): "s", Duration(time.Minute): "m", Duration(time.Hour): "h"}[r.Per]

	return fmt.Sprintf("%d/%s", r.Count, unit)
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	count, unit, _ := strings.Cut(string(text), "/")
	n, err := strconv.ParseInt(count, 10, 64)
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]

	if err != nil || per == 0 || n < 1 || n > 1_000_000 {
		return fmt.Errorf("%q is not a rate: write 100/s, 30/m or 1000/h, 1 to 1000000", text)
	}

	r.Count, r.Per = n, Duration(per)

	return nil
}
