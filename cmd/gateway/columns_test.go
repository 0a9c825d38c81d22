package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/api/client"
	"gateway/config"
	"gateway/resources"
)

// objectOf makes an object of two halves in JSON.
func objectOf(kind, spec, status string) *client.Object {
	o := &client.Object{Kind: kind, Metadata: config.ObjectMetadata{Name: "x", Revision: 3, Origin: "api", Created: time.Now().Add(-90 * time.Second)}}
	if spec != "" {
		o.Spec = json.RawMessage(spec)
	}

	if status != "" {
		o.Status = json.RawMessage(status)
	}

	return o
}

func TestEachKindHasItsColumns(t *testing.T) {
	const ready = `"conditions": [{"type": "Ready", "status": "True", "reason": "Ready"}]`

	soon, before := time.Now().Add(time.Hour+time.Minute).Format(time.RFC3339), time.Now().Add(-time.Hour-time.Minute).Format(time.RFC3339)

	for text, test := range map[string]struct {
		kind, spec, status string
		wide               bool
		want               string
	}{
		"a VM of which nothing is known": {"VM", `{"cpus": 2, "memory": "1GiB"}`, "", false, "x|unknown||||1m"},
		"a VM": {
			"VM", `{"cpus": 2, "memory": "1GiB"}`,
			`{"state": "stopped", "host": "a", "held": true, "override": {"power": "stopped"}, "lastError": "no disk",
			"addresses": [{"address": "10.7.0.9", "source": "declared"}, {"address": "10.7.0.10", "source": "lease"}],
			"conditions": [{"type": "Converged", "status": "False", "reason": "Held"}]}`,
			true, "x|stopped (override, held)|a|10.7.0.10|False (Held)|1m|2|1GiB|3|api|no disk",
		},
		"a host": {
			"Host", `{"uri": "sim://a", "capacity": {"cpus": 4}}`,
			`{"conditions": [{"type": "Connected", "status": "True"}], "draining": true, "driver": "SIM", "capacity": {"cpus": 8, "memory": "2GiB"}}`,
			false, "x|True (draining)|sim://a|SIM|8|2GiB|1m",
		},
		"a host that is away": {
			"Host", `{"uri": "sim://a"}`, `{"conditions": [{"type": "Connected", "status": "False", "reason": "HostUnreachable", "message": "refused"}]}`,
			true, "x|False (HostUnreachable)|sim://a||||1m|3|api|refused",
		},
		"a network":             {"Network", `{"mode": "nat", "subnet": "10.7.0.0/24"}`, `{"hosts": ["a", "b"], ` + ready + `}`, false, "x|True|nat|10.7.0.0/24|a,b|1m"},
		"an image":              {"Image", `{"source": "/i.qcow2"}`, `{` + ready + `}`, false, "x|True|/i.qcow2|1m"},
		"a webhook":             {"Webhook", `{"auth": {"none": true}}`, `{"counts": {"received": 5, "refused": 0, "lastReceived": "` + before + `"}, ` + ready + `}`, false, "x|True|none|5|0|1h ago|1m"},
		"a schedule":            {"Schedule", `{"cron": "@hourly"}`, `{"next": ["` + soon + `"], "last": ["` + before + `"], ` + ready + `}`, false, "x|True|@hourly|in 1h|1h ago|1m"},
		"a schedule that is at": {"Schedule", `{"at": "2030-01-01T00:00:00Z"}`, "", false, "x||2030-01-01T00:00:00Z|||1m"},
		"a subscription":        {"Subscription", `{"subject": "a.>", "stream": "S"}`, `{"counts": {"received": 1, "refused": 2}}`, false, "x||a.>|S|1|2||1m"},
		"a trigger":             {"Trigger", `{"on": {"source": "webhook", "name": "w"}, "when": "true", "do": [{"sync": {"kind": "VM"}}, {"publish": {"subject": "s"}}]}`, "", false, "x|webhook/w|true|sync,publish|1m"},
		"a file": {
			"FileStatus", "", `{"path": "/d/a.yaml", "bytes": 9, "objects": [{"kind": "VM", "name": "a", "outcome": "created"},
			{"kind": "VM", "name": "b", "outcome": "conflict", "message": "is declared by api"}]}`, false, "/d/a.yaml|1|1|VM/b: is declared by api",
		},
		"a file with a fault":        {"FileStatus", "", `{"path": "/d/a.yaml", "applyError": "a.yaml:1:1: broken"}`, false, "/d/a.yaml|0|0|a.yaml:1:1: broken"},
		"a file with several faults": {"FileStatus", "", `{"path": "/d/a.yaml", "applyError": "a.yaml:1:1: broken\na.yaml:2:1: odd\na.yaml:3:1: wrong"}`, false, "/d/a.yaml|0|0|a.yaml:1:1: broken (and 2 more)"},
		"a directory":                {"FileRoot", "", `{"path": "/d", "available": true, "files": 3, "reason": "Ready"}`, false, "/d|true|3|Ready|"},
		"any other kind":             {"VMPlacement", `{"host": "a", "reason": "Placed"}`, "", false, "x|a|Placed|1m"},
		"what has no value":          {"DeletionGuard", "", `{"root": "/d", "count": 3}`, false, "x|/d|3|1m"},
	} {
		t.Run(text, func(t *testing.T) {
			kind, ok := resources.KindByName(test.kind)
			require.True(t, ok)

			columns := columnsOf(kind, test.wide)
			row, err := columns.row(objectOf(test.kind, test.spec, test.status))
			require.NoError(t, err)
			require.Len(t, row, len(columns.header))
			require.Equal(t, test.want, strings.Join(row, "|"))
		})
	}
}

func TestEveryKindHasATable(t *testing.T) {
	for _, kind := range resources.Kinds() {
		for _, wide := range []bool{false, true} {
			columns := columnsOf(kind, wide)
			row, err := columns.row(objectOf(kind.Name, "{}", "{}"))
			require.NoError(t, err, kind.Name)
			require.Len(t, row, len(columns.header), kind.Name)
		}
	}
}

func TestAWatchPrintsWhatShowsInTheTable(t *testing.T) {
	var out strings.Builder

	kind, _ := resources.KindByName("VM")
	visit := (&app{out: &out}).watchTable(getFlags{kind: kind, output: outputTable})

	for _, change := range []client.Change{
		{Type: client.Current, Name: "x", Object: objectOf("VM", `{}`, `{"state": "running", "host": "a"}`)},
		{Type: client.Synced},
		{Type: client.Changed, Name: "x", Object: objectOf("VM", `{}`, `{"state": "running", "host": "a", "cause": "another"}`)},
		{Type: client.Changed, Name: "x", Object: objectOf("VM", `{}`, `{"state": "stopped", "host": "a"}`)},
		{Type: client.Deleted, Name: "x"},
	} {
		goOn, err := visit(change)
		require.NoError(t, err)
		require.True(t, goOn)
	}

	require.Equal(t, ""+
		"NAME         STATE        HOST         ADDRESS      CONVERGED    AGE\n"+
		"x            running      a            -            -            1m\n"+
		"x            stopped      a            -            -            1m\n"+
		"x            deleted      -            -            -            -\n", out.String())
}

func TestAWatchInJSONIsAnObjectALine(t *testing.T) {
	var out strings.Builder

	visit := (&app{out: &out}).watchObjects(outputJSON)

	for _, change := range []client.Change{
		{Type: client.Current, Kind: "VM", Name: "x", Object: &client.Object{Kind: "VM", Metadata: config.ObjectMetadata{Name: "x"}}},
		{Type: client.Synced},
		{Type: client.Deleted, Kind: "VM", Name: "x"},
	} {
		_, err := visit(change)
		require.NoError(t, err)
	}

	require.Equal(t, ""+
		`{"apiVersion":"","kind":"VM","metadata":{"name":"x"}}`+"\n"+
		`{"kind":"VM","metadata":{"name":"x"},"deleted":true}`+"\n", out.String())
}

func TestAnObjectInTeardownSaysSo(t *testing.T) {
	for kind, want := range map[string]string{"VM": "unknown (deleting)", "Host": "(deleting)", "Hold": "(deleting)"} {
		o := objectOf(kind, `{}`, "")
		o.Metadata.Deleting = true

		k, ok := resources.KindByName(kind)
		require.True(t, ok)

		row, err := columnsOf(k, false).row(o)
		require.NoError(t, err)
		require.Equal(t, want, row[1], kind)
	}
}
