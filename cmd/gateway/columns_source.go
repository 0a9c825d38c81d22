package main

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"gateway/api/client"
	"gateway/resources"
)

func webhookValues(o *client.Object, now time.Time) ([]string, error) {
	spec, err := client.SpecOf[resources.WebhookSpec](o)
	if err != nil {
		return nil, err
	}

	status, err := client.StatusOf[resources.WebhookStatusSpec](o)
	if err != nil {
		return nil, err
	}

	return []string{
		o.Metadata.Name, holds(status.Conditions, resources.ConditionReady), strings.Join(spec.Auth.Ways(), ","),
		count(status.Counts.Received), count(status.Counts.Refused), ago(status.Counts.LastReceived, now), age(o.Metadata.Created, now),
	}, nil
}

func scheduleValues(o *client.Object, now time.Time) ([]string, error) {
	spec, err := client.SpecOf[resources.ScheduleSpec](o)
	if err != nil {
		return nil, err
	}

	status, err := client.StatusOf[resources.ScheduleStatusSpec](o)
	if err != nil {
		return nil, err
	}

	var next, last time.Time
	if len(status.Next) > 0 {
		next = status.Next[0]
	}

	if len(status.Last) > 0 {
		last = status.Last[0]
	}

	return []string{
		o.Metadata.Name, holds(status.Conditions, resources.ConditionReady), cmp.Or(spec.Cron, spec.At), until(next, now), ago(last, now),
		age(o.Metadata.Created, now),
	}, nil
}

func subscriptionValues(o *client.Object, now time.Time) ([]string, error) {
	spec, err := client.SpecOf[resources.SubscriptionSpec](o)
	if err != nil {
		return nil, err
	}

	status, err := client.StatusOf[resources.SubscriptionStatusSpec](o)
	if err != nil {
		return nil, err
	}

	return []string{
		o.Metadata.Name, holds(status.Conditions, resources.ConditionReady), spec.Subject, spec.Stream,
		count(status.Counts.Received), count(status.Counts.Refused), ago(status.Counts.LastReceived, now), age(o.Metadata.Created, now),
	}, nil
}

func triggerValues(o *client.Object, now time.Time) ([]string, error) {
	spec, err := client.SpecOf[resources.TriggerSpec](o)
	if err != nil {
		return nil, err
	}

	on := spec.On.Source
	if spec.On.Name != "" {
		on += "/" + spec.On.Name
	}

	var actions []string

	for _, do := range spec.Do {
		for _, action := range []struct {
			name string
			set  bool
		}{
			{"sync", do.Sync != nil}, {"apply", do.Apply != nil}, {"patch", do.Patch != nil}, {"delete", do.Delete != nil},
			{"publish", do.Publish != nil},
		} {
			if action.set {
				actions = append(actions, action.name)
			}
		}
	}

	return []string{o.Metadata.Name, on, spec.When, strings.Join(actions, ","), age(o.Metadata.Created, now)}, nil
}

// count is a count, zero too.
func count(n int64) string { return strconv.FormatInt(n, 10) }
