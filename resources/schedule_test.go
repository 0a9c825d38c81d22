package resources_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

func TestCaseS40SchedulesAreCheckedWithTheirDocument(t *testing.T) {
	for name, c := range map[string]struct {
		spec  resources.ScheduleSpec
		wants string
	}{
		"an expression":                      {resources.ScheduleSpec{Cron: "0 3 * * *", Timezone: "Europe/Berlin"}, ""},
		"a time":                             {resources.ScheduleSpec{At: "2026-12-24T18:00:00+01:00", Timezone: "UTC"}, ""},
		"an expression that never fires":     {resources.ScheduleSpec{Cron: "0 0 31 2 *", Timezone: "UTC"}, "spec.cron: "},
		"an interval that is too short":      {resources.ScheduleSpec{Cron: "@every 1ms", Timezone: "UTC"}, "spec.cron: "},
		"a zone in the expression":           {resources.ScheduleSpec{Cron: "TZ=UTC 0 3 * * *", Timezone: "UTC"}, "`timezone`"},
		"a zone that does not exist":         {resources.ScheduleSpec{Cron: "0 3 * * *", Timezone: "Europe/Bielefeld"}, "spec.timezone: "},
		"the zone of whatever machine it is": {resources.ScheduleSpec{Cron: "0 3 * * *", Timezone: "Local"}, "spec.timezone: "},
		"both an expression and a time":      {resources.ScheduleSpec{Cron: "0 3 * * *", At: "2026-12-24T18:00:00Z", Timezone: "UTC"}, "exactly one"},
		"neither an expression nor a time":   {resources.ScheduleSpec{Timezone: "UTC"}, "exactly one"},
		"a time that can't be read":          {resources.ScheduleSpec{At: "tomorrow", Timezone: "UTC"}, "spec.at: "},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.spec.Validate().Err()
			if c.wants == "" {
				require.NoError(t, err)

				return
			}

			require.ErrorContains(t, err, c.wants)
		})
	}
}
