package cronexpr_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gateway/resources/cronexpr"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()

	loc, err := time.LoadLocation(name)
	require.NoError(t, err)

	return loc
}

// dues lists what is due in (from, to], as text with the offset from UTC.
func dues(t testing.TB, expr, timezone, from, to string) []string {
	t.Helper()

	loc := zone(t, timezone)
	e, err := cronexpr.Parse(expr, loc)
	require.NoError(t, err)

	at, err := time.ParseInLocation("2006-01-02 15:04", from, loc)
	require.NoError(t, err)

	end, err := time.ParseInLocation("2006-01-02 15:04", to, loc)
	require.NoError(t, err)

	found := []string{}

	for {
		next := e.Next(at)
		require.True(t, next.After(at), "Next must rise: %s after %s", next, at)

		if next.After(end) {
			return found
		}

		found = append(found, next.Format("01-02 15:04 -0700"))
		at = next
	}
}

func TestCaseS40NeverFiringIsRefused(t *testing.T) {
	for _, expr := range []string{"0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 0 30 feb ?"} {
		_, err := cronexpr.Parse(expr, time.UTC)
		require.ErrorContains(t, err, "never fires", expr)
	}

	leap, err := cronexpr.Parse("0 0 29 2 *", time.UTC)
	require.NoError(t, err)

	next := leap.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	require.Equal(t, time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC), next)

	afterCentury := leap.Next(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC))
	require.Equal(t, time.Date(2104, 2, 29, 0, 0, 0, 0, time.UTC), afterCentury, "2100 is no leap year")
}

func TestCaseS41ClocksChange(t *testing.T) {
	for name, c := range map[string]struct {
		expr, zone, from, to string
		want                 []string
	}{
		"a time that does not exist is due once, shifted": {
			"30 2 * * *", "America/New_York", "2026-03-07 12:00", "2026-03-09 12:00",
			[]string{"03-08 03:30 -0400", "03-09 02:30 -0400"},
		},
		"a shifted time that another of the same schedule has is due once": {
			"30 2,3 * * *", "America/New_York", "2026-03-08 00:00", "2026-03-08 12:00",
			[]string{"03-08 03:30 -0400"},
		},
		"shifted and regular times come in order": {
			"0,30 2,3 * * *", "America/New_York", "2026-03-08 00:00", "2026-03-08 12:00",
			[]string{"03-08 03:00 -0400", "03-08 03:30 -0400"},
		},
		"a time that comes twice is due once": {
			"30 1 * * *", "America/New_York", "2026-10-31 12:00", "2026-11-02 12:00",
			[]string{"11-01 01:30 -0400", "11-02 01:30 -0500"},
		},
		"an hourly schedule is due at every real hour when an hour comes twice": {
			"0 * * * *", "America/New_York", "2026-11-01 00:00", "2026-11-01 03:00",
			[]string{"11-01 01:00 -0400", "11-01 01:00 -0500", "11-01 02:00 -0500", "11-01 03:00 -0500"},
		},
		"an hourly schedule is due at every real hour when an hour is left out": {
			"0 * * * *", "America/New_York", "2026-03-08 00:00", "2026-03-08 04:00",
			[]string{"03-08 01:00 -0500", "03-08 03:00 -0400", "03-08 04:00 -0400"},
		},
		"midnight that does not exist": {
			"0 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00", "2018-11-05 12:00",
			[]string{"11-04 01:00 -0200", "11-05 00:00 -0200"},
		},
		"midnight that comes twice": {
			"0 0 * * *", "America/Havana", "2026-10-31 12:00", "2026-11-02 12:00",
			[]string{"11-01 00:00 -0400", "11-02 00:00 -0500"},
		},
		"half an hour is left out": {
			"15 2 * * *", "Australia/Lord_Howe", "2026-10-03 12:00", "2026-10-05 12:00",
			[]string{"10-04 02:45 +1100", "10-05 02:15 +1100"},
		},
		"a whole day is left out": {
			"0 12 * * *", "Pacific/Apia", "2011-12-29 00:00", "2012-01-01 00:00",
			[]string{"12-29 12:00 -1000", "12-31 12:00 +1400"},
		},
		"every second hour in Berlin": {
			"0 */2 * * *", "Europe/Berlin", "2026-10-25 00:30", "2026-10-25 05:00",
			[]string{"10-25 02:00 +0200", "10-25 04:00 +0100"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, dues(t, c.expr, c.zone, c.from, c.to))
		})
	}
}

func TestCaseS42Refused(t *testing.T) {
	for expr, want := range map[string]string{
		"":                           "required",
		"@every 1ms":                 "less than 1s",
		"@every 0s":                  "less than 1s",
		"@every -5s":                 "less than 1s",
		"@every 1500ms":              "whole number of seconds",
		"@every":                     "not a duration",
		"@reboot":                    "unknown",
		"TZ=UTC":                     "timezone",
		"CRON_TZ=UTC":                "timezone",
		"TZ=Europe/Berlin 0 3 * * *": "timezone",
		"0 0 L * *":                  "L (last)",
		"0 0 15W * *":                "W (nearest weekday)",
		"0 0 LW * *":                 "L (last)",
		"0 0 * * 5L":                 "L (last)",
		"0 0 * * mon#2":              "# (nth weekday)",
		"H 0 * * *":                  "H (hash)",
		"* * * *":                    "4 fields",
		"* * * * * * *":              "7 fields",
		"60 * * * *":                 "above maximum",
		"1,,2 * * * *":               "empty element",
		", * * * *":                  "empty element",
		"? 0 * * *":                  "only for day",
		"* * * * 8":                  "above maximum",
		"*/0 * * * *":                "positive number",
		"* * * * 5-7/0":              "positive number",
		"a b c d e":                  "a",
	} {
		_, err := cronexpr.Parse(expr, time.UTC)
		require.ErrorContains(t, err, want, expr)
	}

	_, err := cronexpr.Parse(strings.Repeat("1,", 2000)+"1 * * * *", time.UTC)
	require.ErrorContains(t, err, "characters")
}

func TestCaseS42DayOfWeekSevenIsSunday(t *testing.T) {
	for expr, want := range map[string]string{
		"0 0 * * 7":        "0 0 * * 0",
		"0 0 * * 5-7":      "0 0 * * 0,5,6",
		"0 0 * * 1-7/2":    "0 0 * * 0,1,3,5",
		"0 0 * * 2,7":      "0 0 * * 0,2",
		"0 0 * * sat-sun":  "0 0 * * 0,6",
		"0 0 * * 0-7":      "0 0 * * 0-6",
		"30 0 0 * * WED":   "30 0 0 * * 3",
		"0 0 13 JUL-AUG 7": "0 0 13 7-8 0",
	} {
		got, err := cronexpr.Parse(expr, time.UTC)
		require.NoError(t, err, expr)

		same, err := cronexpr.Parse(want, time.UTC)
		require.NoError(t, err, want)

		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 30 {
			require.Equal(t, same.Next(at), got.Next(at), expr)
			at = got.Next(at)
		}
	}
}

func TestCaseS42DayOfMonthAndDayOfWeekMeanOr(t *testing.T) {
	require.Equal(t,
		[]string{"02-02 00:00 +0000", "02-09 00:00 +0000", "02-13 00:00 +0000", "02-16 00:00 +0000"},
		dues(t, "0 0 13 * 1", "UTC", "2026-02-01 00:00", "2026-02-17 00:00"))
}

func TestEveryCountsFromTheGivenTime(t *testing.T) {
	e, err := cronexpr.Parse("@every 90s", time.UTC)
	require.NoError(t, err)
	require.Equal(t, 90*time.Second, e.Every())

	from := time.Date(2026, 1, 1, 0, 0, 7, 123, time.UTC)
	require.Equal(t, time.Date(2026, 1, 1, 0, 1, 37, 0, time.UTC), e.Next(from))
	require.Equal(t, time.Date(2026, 1, 1, 0, 3, 7, 0, time.UTC), e.Prev(from, from.Add(4*time.Minute)))
	require.True(t, e.Prev(from, from.Add(time.Minute)).IsZero())
}

// fieldGenerator makes fields that robfig's parser reads rightly: no 7, no empty element.
func fieldGenerator(low, high int) *rapid.Generator[string] {
	element := rapid.Custom(func(t *rapid.T) string {
		a := rapid.IntRange(low, high).Draw(t, "a")
		b := rapid.IntRange(a, high).Draw(t, "b")
		step := rapid.IntRange(1, high).Draw(t, "step")

		return rapid.SampledFrom([]string{
			"*", fmt.Sprint(a), fmt.Sprintf("%d-%d", a, b), fmt.Sprintf("*/%d", step), fmt.Sprintf("%d-%d/%d", a, b, step), fmt.Sprintf("%d/%d", a, step),
		}).Draw(t, "element")
	})

	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(element, 1, 3).Draw(t, "elements"), ",")
	})
}

func TestInUTCNextIsWhatRobfigSays(t *testing.T) {
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

	rapid.Check(t, func(t *rapid.T) {
		fields := []string{
			fieldGenerator(0, 59).Draw(t, "second"), fieldGenerator(0, 59).Draw(t, "minute"), fieldGenerator(0, 23).Draw(t, "hour"),
			fieldGenerator(1, 31).Draw(t, "day"), fieldGenerator(1, 12).Draw(t, "month"), fieldGenerator(0, 6).Draw(t, "weekday"),
		}
		expr := strings.Join(fields[rapid.IntRange(0, 1).Draw(t, "without seconds"):], " ")

		oracle, err := parser.Parse("TZ=UTC " + expr)
		if err != nil {
			t.Fatalf("the generator made %q: %s", expr, err)
		}

		at := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "at"), 0).UTC()

		e, err := cronexpr.Parse(expr, time.UTC)
		if err != nil {
			if next := oracle.Next(at); !next.IsZero() {
				t.Fatalf("%q was refused, and is due at %s: %s", expr, next, err)
			}

			return
		}

		for range 5 {
			want := oracle.Next(at)
			if want.IsZero() {
				return // robfig gives up after five years
			}

			if got := e.Next(at); !got.Equal(want) {
				t.Fatalf("%q after %s: %s, robfig says %s", expr, at, got, want)
			}

			at = want
		}
	})
}

func TestPrevIsTheLastOfNext(t *testing.T) {
	zones := []*time.Location{time.UTC, zone(t, "America/New_York"), zone(t, "Australia/Lord_Howe")}
	exprs := []string{"0 * * * *", "30 1,2 * * *", "*/20 2 * * *", "0 0 * * 1", "15 3 1 * *"}

	rapid.Check(t, func(t *rapid.T) {
		expr := rapid.SampledFrom(exprs).Draw(t, "expr")

		e, err := cronexpr.Parse(expr, rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}

		after := time.Unix(rapid.Int64Range(1_700_000_000, 1_800_000_000).Draw(t, "after"), 0)
		at := after.Add(time.Duration(rapid.Int64Range(0, 86_400*20).Draw(t, "seconds")) * time.Second)

		var want time.Time
		for next := e.Next(after); !next.After(at); next = e.Next(next) {
			want = next
		}

		if got := e.Prev(after, at); !got.Equal(want) {
			t.Fatalf("%q: the last in (%s, %s] is %s, not %s", expr, after, at, want, got)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"0 3 * * *", "TZ=UTC", "@every 1ms", "0 0 31 2 *", "* * * * 7", "*/5 1-2,3 L W #", "@", "@every 9999999h", "0 0 29 2 7/2"} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, expr string) {
		e, err := cronexpr.Parse(expr, time.UTC)
		if err != nil {
			return
		}

		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if next := e.Next(at); !next.After(at) {
			t.Fatalf("%q is due at %s, not after %s", expr, next, at)
		}
	})
}
