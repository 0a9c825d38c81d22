package cronexpr

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // time zones work on machines without /usr/share/zoneinfo, such as a minimal container

	"github.com/robfig/cron/v3"
)

// MinEvery is the shortest interval of @every, and its resolution.
const MinEvery = time.Second

// maxLength bounds an expression: a field that lists all its values in full has 170 characters.
const maxLength = 1024

var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// Expression is a parsed cron expression in its time zone. It is immutable.
type Expression struct {
	loc *time.Location
	// every is the interval of @every; zero for all others.
	every time.Duration
	// wall matches the fields of a wall clock. It is asked in UTC, where every wall time exists exactly once.
	wall *cron.SpecSchedule
	// hourly reports that every hour of the day matches: such a schedule follows real time where an hour comes twice.
	hourly bool
}

// Parse reads an expression: five fields (minute, hour, day of month, month, day of week), six with seconds first, @hourly,
// @daily, @midnight, @weekly, @monthly, @yearly, @annually, or @every DURATION in whole seconds, at least MinEvery. Day of week is 0 to 7, where 0
// and 7 are Sunday; when day of month and day of week are both restricted, either suffices, as in Vixie cron. The error
// says what is wrong and what would be right; an expression that never fires is an error.
func Parse(expr string, loc *time.Location) (*Expression, error) {
	expr = strings.TrimSpace(expr)

	switch {
	case expr == "":
		return nil, errors.New("an expression is required, as `0 3 * * *`")
	case len(expr) > maxLength:
		return nil, fmt.Errorf("%d characters, at most %d are allowed", len(expr), maxLength)
	case loc == nil:
		return nil, errors.New("a time zone is required")
	case strings.HasPrefix(expr, "TZ=") || strings.HasPrefix(expr, "CRON_TZ="):
		return nil, fmt.Errorf("%q: give the time zone in `timezone`, not in the expression", firstField(expr))
	case strings.HasPrefix(expr, "@every"):
		return parseEvery(expr, loc)
	case strings.HasPrefix(expr, "@"):
		return parseFields(expr, loc)
	}

	normal, err := normalize(strings.Fields(expr))
	if err != nil {
		return nil, err
	}

	return parseFields(normal, loc)
}

func firstField(expr string) string { return strings.Fields(expr)[0] }

func parseEvery(expr string, loc *time.Location) (*Expression, error) {
	text := strings.TrimSpace(strings.TrimPrefix(expr, "@every"))

	every, err := time.ParseDuration(text)

	switch {
	case err != nil:
		return nil, fmt.Errorf("%q is not a duration: write @every 30s or @every 1h30m", text)
	case every < MinEvery:
		return nil, fmt.Errorf("@every %s is less than %s", text, MinEvery)
	case every%MinEvery != 0:
		return nil, fmt.Errorf("@every %s is not a whole number of seconds", text)
	}

	return &Expression{loc: loc, every: every}, nil
}

func parseFields(expr string, loc *time.Location) (*Expression, error) {
	schedule, err := parser.Parse(expr)
	if err != nil {
		if strings.HasPrefix(expr, "@") {
			return nil, fmt.Errorf("%q is unknown: use @hourly, @daily, @weekly, @monthly, @yearly or @every DURATION", expr)
		}

		return nil, err
	}

	spec, ok := schedule.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%q is not supported", expr)
	}

	spec.Location = time.UTC

	const allHours = 1<<24 - 1

	e := &Expression{loc: loc, wall: spec, hourly: spec.Hour&allHours == allHours}
	if e.nextWall(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("%q never fires: no month that it names has such a day", expr)
	}

	return e, nil
}
