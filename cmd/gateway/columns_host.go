package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gateway/api"
	"gateway/api/client"
	"gateway/resources"
)

func hostValues(o *client.Object, now time.Time) ([]string, error) {
	spec, err := client.SpecOf[resources.HostSpec](o)
	if err != nil {
		return nil, err
	}

	status, err := client.StatusOf[resources.HostStatusSpec](o)
	if err != nil {
		return nil, err
	}

	cpus, memory := cmp.Or(status.Capacity.CPUs, spec.Capacity.CPUs), cmp.Or(status.Capacity.Memory, spec.Capacity.Memory)
	size := ""

	if memory > 0 {
		size = memory.String()
	}

	connected := holds(status.Conditions, resources.ConditionConnected)
	if status.Draining {
		connected += " (draining)"
		if status.Drain != nil {
			connected = strings.TrimSuffix(connected, ")") + fmt.Sprintf(", %d left)", status.Drain.Left)
		}
	}

	return []string{o.Metadata.Name, connected, spec.URI, status.Driver, number(int64(cpus)), size, age(o.Metadata.Created, now)}, nil
}

func networkValues(o *client.Object, now time.Time) ([]string, error) {
	spec, err := client.SpecOf[resources.NetworkSpec](o)
	if err != nil {
		return nil, err
	}

	status, err := client.StatusOf[resources.NetworkStatusSpec](o)
	if err != nil {
		return nil, err
	}

	return []string{
		o.Metadata.Name, holds(status.Conditions, resources.ConditionReady), spec.Mode, spec.Subnet, strings.Join(status.Hosts, ","),
		age(o.Metadata.Created, now),
	}, nil
}

func imageValues(o *client.Object, now time.Time) ([]string, error) {
	spec, err := client.SpecOf[resources.ImageSpec](o)
	if err != nil {
		return nil, err
	}

	status, err := client.StatusOf[resources.ImageStatusSpec](o)
	if err != nil {
		return nil, err
	}

	return []string{o.Metadata.Name, holds(status.Conditions, resources.ConditionReady), spec.Source, age(o.Metadata.Created, now)}, nil
}

func fileValues(o *client.Object, _ time.Time) ([]string, error) {
	status, err := client.StatusOf[api.FileStatus](o)
	if err != nil {
		return nil, err
	}

	failed, problem := 0, cmp.Or(status.Error, status.ApplyError)

	for _, object := range status.Objects {
		if object.Outcome == resources.OutcomeRefused || object.Outcome == resources.OutcomeConflict {
			failed++

			problem = cmp.Or(problem, object.Kind+"/"+object.Name+": "+object.Message)
		}
	}

	return []string{
		status.Path, strconv.Itoa(len(status.Objects) - failed), strconv.Itoa(failed), firstLine(problem), strconv.FormatInt(status.Bytes, 10),
		o.Metadata.Name, status.Digest,
	}, nil
}

// firstLine is the first of a text's lines, with how many there are beside it: `gateway describe file PATH` has them all.
func firstLine(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if !more {
		return first
	}

	return fmt.Sprintf("%s (and %d more)", first, strings.Count(rest, "\n")+1)
}

func rootValues(o *client.Object, _ time.Time) ([]string, error) {
	status, err := client.StatusOf[resources.FileRootSpec](o)
	if err != nil {
		return nil, err
	}

	return []string{status.Path, strconv.FormatBool(status.Available), strconv.Itoa(status.Files), status.Reason, status.Message}, nil
}
