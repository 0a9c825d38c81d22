package main

import (
	"strings"
	"time"

	"gateway/api/client"
	"gateway/resources"
)

// columns are those of a kind's table. The first one is the object's name.
type columns struct {
	header []string
	// values returns the values of all columns.
	values func(o *client.Object, now time.Time) ([]string, error)
	// wide is how many of them, from the left, are shown without -o wide.
	narrow int
}

// columnsOf returns the columns of a kind.
func columnsOf(kind *resources.Kind, wide bool) columns {
	c, ok := kindColumns[kind.Name]
	if !ok {
		c = generic(kind)
	}

	if c.narrow == 0 {
		c.narrow = len(c.header)
		c.header, c.values = append(c.header[:c.narrow:c.narrow], "REVISION", "ORIGIN", "MESSAGE"), withMetadata(c.values)
	}

	if !wide {
		c.header = c.header[:c.narrow]
	}

	return c
}

// row is the row of an object. The second column says of one in teardown that it is.
func (c columns) row(o *client.Object) ([]string, error) {
	values, err := c.values(o, time.Now())
	if err != nil {
		return nil, err
	}

	if o.Metadata.Deleting && len(values) > 1 {
		values[1] = strings.TrimSpace(values[1] + " (deleting)")
	}

	return values[:len(c.header)], nil
}

// kindColumns are the columns of the kinds that have their own.
var kindColumns = map[string]columns{
	"VM": {
		header: []string{"NAME", "STATE", "HOST", "ADDRESS", "CONVERGED", "AGE", "CPUS", "MEMORY", "REVISION", "ORIGIN", "MESSAGE"},
		narrow: 6, values: vmValues,
	},
	"Host":         {header: []string{"NAME", "CONNECTED", "URI", "DRIVER", "CPUS", "MEMORY", "AGE"}, values: hostValues},
	"Network":      {header: []string{"NAME", "READY", "MODE", "SUBNET", "HOSTS", "AGE"}, values: networkValues},
	"Image":        {header: []string{"NAME", "READY", "SOURCE", "AGE"}, values: imageValues},
	"Webhook":      {header: []string{"NAME", "READY", "AUTH", "RECEIVED", "REFUSED", "LAST", "AGE"}, values: webhookValues},
	"Schedule":     {header: []string{"NAME", "READY", "WHEN", "NEXT", "LAST", "AGE"}, values: scheduleValues},
	"Subscription": {header: []string{"NAME", "READY", "SUBJECT", "STREAM", "RECEIVED", "REFUSED", "LAST", "AGE"}, values: subscriptionValues},
	"Trigger":      {header: []string{"NAME", "ON", "WHEN", "ACTIONS", "AGE"}, values: triggerValues},
	"FileStatus": {
		header: []string{"PATH", "OBJECTS", "FAILED", "ERROR", "BYTES", "NAME", "DIGEST"}, narrow: 4, values: fileValues,
	},
	"FileRoot": {header: []string{"PATH", "AVAILABLE", "FILES", "REASON", "MESSAGE"}, narrow: 5, values: rootValues},
}

// withMetadata adds what -o wide shows of every kind.
func withMetadata(values func(*client.Object, time.Time) ([]string, error)) func(*client.Object, time.Time) ([]string, error) {
	return func(o *client.Object, now time.Time) ([]string, error) {
		row, err := values(o, now)
		if err != nil {
			return nil, err
		}

		status, err := client.StatusOf[common](o)
		if err != nil {
			return nil, err
		}

		return append(row, number(o.Metadata.Revision), o.Metadata.Origin, status.message()), nil
	}
}
