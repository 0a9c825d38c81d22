package cronexpr

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The fields of an expression, from the last: seconds, which may be missing, come first.
const (
	fieldWeekday = 1 + iota
	fieldMonth
	fieldDay
)

var (
	weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	months   = []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
)

// extensions of other cron implementations, which are named rather than called a number that can't be parsed.
var extensions = map[rune]string{'L': "L (last)", 'W': "W (nearest weekday)", '#': "# (nth weekday)", 'H': "H (hash)"}

// normalize checks what robfig's parser lets pass or words badly, and writes day-of-week 7 as 0.
func normalize(fields []string) (string, error) {
	if len(fields) != 5 && len(fields) != 6 {
		return "", fmt.Errorf("%d fields: write five (minute, hour, day of month, month, day of week), or six with seconds first", len(fields))
	}

	for i, field := range fields {
		place := len(fields) - i

		for element := range strings.SplitSeq(field, ",") {
			if err := checkElement(field, element, place); err != nil {
				return "", err
			}
		}
	}

	last := len(fields) - 1

	weekday, err := normalizeWeekday(fields[last])
	if err != nil {
		return "", err
	}

	return strings.Join(append(slices.Clone(fields[:last]), weekday), " "), nil
}

// checkElement refuses what no field may have: nothing between two commas, "?" where it has no meaning, and extensions.
func checkElement(field, element string, place int) error {
	if element == "" {
		return fmt.Errorf("%q has an empty element", field)
	}

	for part := range strings.FieldsFuncSeq(element, func(r rune) bool { return r == '-' || r == '/' }) {
		lower := strings.ToLower(part)

		switch {
		case place == fieldWeekday && slices.Contains(weekdays, lower), place == fieldMonth && slices.Contains(months, lower):
			continue
		case part == "?" && place != fieldWeekday && place != fieldDay:
			return fmt.Errorf("%q: `?` is only for day of month and day of week", field)
		}

		for _, r := range strings.ToUpper(part) {
			if name, ok := extensions[r]; ok {
				return fmt.Errorf("%q: the extension %s is not supported", field, name)
			}
		}
	}

	return nil
}

// normalizeWeekday writes the elements of a day-of-week field that reach to Sunday as 7, or as the end of a range, as lists
// of 0 to 6. All others are left to robfig's parser.
func normalizeWeekday(field string) (string, error) {
	elements := strings.Split(field, ",")

	for i, element := range elements {
		span, step, hasStep := strings.Cut(element, "/")
		from, to, isRange := strings.Cut(span, "-")

		first, ok := weekdayNumber(from)
		if !ok {
			continue
		}

		last := first

		if isRange {
			if last, ok = weekdayNumber(to); !ok {
				continue
			}

			if strings.EqualFold(to, "sun") && first != 0 { // sat-sun
				last = 7
			}
		} else if hasStep { // N/S means from N to the end
			last = max(first, 6)
		}

		if last != 7 {
			continue
		}

		by := 1

		if hasStep {
			n, err := strconv.Atoi(step)
			if err != nil || n < 1 {
				return "", fmt.Errorf("%q: the step %q is not a positive number", field, step)
			}

			by = min(n, 8)
		}

		if first > last {
			return "", errors.New(strconv.Quote(field) + ": the range ends before it begins")
		}

		elements[i] = expand(first, last, by)
	}

	return strings.Join(elements, ","), nil
}

// expand lists the weekdays from first to last, 7 as 0.
func expand(first, last, by int) string {
	var days []string

	for day := first; day <= last; day += by {
		days = append(days, strconv.Itoa(day%7))
	}

	return strings.Join(days, ",")
}

func weekdayNumber(text string) (int, bool) {
	if i := slices.Index(weekdays, strings.ToLower(text)); i >= 0 {
		return i, true
	}

	n, err := strconv.Atoi(text)

	return n, err == nil && n >= 0 && n <= 7
}
