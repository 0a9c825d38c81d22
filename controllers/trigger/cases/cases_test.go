package cases_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/controllers/trigger/cases"
)

const triggers = `apiVersion: gateway/v1alpha1
kind: Trigger
metadata: {name: by-file}
spec:
  on: {source: file}
  when: event.data.path.endsWith(".qcow2")
  do: [{sync: {kind: Image, selector: {}}}]
---
apiVersion: gateway/v1alpha1
kind: Trigger
metadata: {name: by-crash}
spec:
  on: {source: domain, name: web-1}
  when: event.data.kind == "crashed"
  do: [{publish: {subject: "crashes.${event.data.vm}", data: {host: "${event.data.host}"}}}]
---
apiVersion: gateway/v1alpha1
kind: Trigger
metadata: {name: by-clock}
spec:
  on: {source: schedule, name: nightly}
  do: [{delete: {kind: VM, name: scratch}}]
---
apiVersion: gateway/v1alpha1
kind: Trigger
metadata: {name: by-message}
spec:
  on: {source: subscription}
  do:
    - apply: {document: {apiVersion: gateway/v1alpha1, kind: VM, metadata: {name: "ci-${event.data.run}"}, spec: {cpus: "${event.data.cpus}"}}}
`

// run writes a file of cases beside the triggers and returns the differences of each case, by its name.
func run(t *testing.T, text string) map[string][]string {
	t.Helper()

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "triggers.yaml"), []byte(triggers), 0o600))

	path := filepath.Join(dir, "cases.txt")
	require.NoError(t, os.WriteFile(path, []byte("documents: [.]\ncases:\n"+text), 0o600))

	file, loaded, err := cases.Load(path)
	require.NoError(t, err)

	results, err := cases.Run(t.Context(), file, loaded)
	require.NoError(t, err)

	differences := map[string][]string{}
	for _, r := range results {
		require.Positive(t, r.Line)
		differences[r.Name] = r.Differences
	}

	return differences
}

func TestTheExampleHolds(t *testing.T) {
	file, triggers, err := cases.Load("../../../config/examples/test/cases.yaml")
	require.NoError(t, err)
	require.Len(t, triggers, 2)

	results, err := cases.Run(t.Context(), file, triggers)
	require.NoError(t, err)
	require.Len(t, results, 5)

	for _, r := range results {
		require.Empty(t, r.Differences, r.Name)
	}

	require.Len(t, results[0].Triggers, 1)
	require.Empty(t, results[3].Triggers)
}

func TestEventsOfEverySourceAreSeenAsTheGatewayHasThem(t *testing.T) {
	for name, differences := range run(t, `
- name: an image arrives
  event: {source: file, name: /srv/images/debian.qcow2, data: {digest: abc, bytes: 7}}
  expect: {fired: [by-file], actions: [{sync: {kind: Image, selector: {}}}]}
- name: a crash
  event: {source: domain, name: web-1, data: {host: node-7, kind: crashed}}
  expect: {fired: [by-crash], actions: [{publish: {subject: crashes.web-1, data: {host: node-7}}}]}
- name: a tick
  event: {source: schedule, name: nightly, time: 2026-05-01T03:00:00Z}
  expect: {fired: [by-clock], actions: [{delete: {kind: VM, name: scratch}}]}
- name: a message, its number typed
  event: {source: subscription, name: commands, data: {run: 12, cpus: 2}}
  expect:
    fired: [by-message]
    actions: [{apply: {document: {spec: {cpus: 2}, metadata: {name: ci-12}, kind: VM, apiVersion: gateway/v1alpha1}}}]
`) {
		require.Empty(t, differences, name)
	}
}

func TestWhatComesOutOtherwiseIsToldWithItsReason(t *testing.T) {
	require.Equal(t, map[string][]string{
		"not fired":     {`- fired: by-crash (NotFired: when is false: event.data.kind == "crashed")`},
		"fired":         {"+ fired: by-clock (Fired: 1 actions)"},
		"nobody":        {"- fired: by-clok (it is not in the documents, or not about events of this source and name)", "+ fired: by-clock (Fired: 1 actions)"},
		"other actions": {"actions (- expected, + what the triggers ask for):", `- {"sync":{"kind":"VM","name":"a"}}`, `- {"sync":{"kind":"VM","name":"b"}}`, `+ {"delete":{"kind":"VM","name":"scratch"}}`},
	}, run(t, `
- {name: not fired, event: {source: domain, name: web-1, data: {kind: started}}, expect: {fired: [by-crash]}}
- {name: fired, event: {source: schedule, name: nightly}, expect: {}}
- {name: nobody, event: {source: schedule, name: nightly}, expect: {fired: [by-clok]}}
- name: other actions
  event: {source: schedule, name: nightly}
  expect: {fired: [by-clock], actions: [{sync: {kind: VM, name: a}}, {sync: {kind: VM, name: b}}]}
`))

	failed := run(t, `
- {name: failed, event: {source: subscription, data: {}}, expect: {}}
`)["failed"]
	require.Len(t, failed, 1)
	require.Contains(t, failed[0], "+ failed: by-message (Failed: do[0]: ")
	require.Contains(t, failed[0], "no such key: run")
}

func TestFaultsOfAFileOfCasesNameTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"documents: [.]\ncases:\n- {name: a, event: {sorce: file}}\n":                   `:3:21: unknown field "sorce" in cases[0].event: did you mean "source"?`,
		"documents: [.]\ncases:\n- {name: a, event: {source: filee}}\n":                 `:3:`,
		"documents: [.]\ncases:\n\n- {name: a, event: {name: b}}\n":                     ":4:1: cases[0].event: source or recorded is needed",
		"documents: [gone.yaml]\ncases: []\n":                                           "gone.yaml: no such file or directory",
		"documents: []\ncases:\n- {name: a, event: {recorded: gone.json}}\n":            "gone.json: no such file or directory",
		"documents: []\ncases:\n- {name: a, event: {recorded: cases.txt}}\n":            "not an item of",
		"documents: []\ncases: []\n---\ndocuments: []\n":                                "one document is needed, not 2",
		"documents: [bad.yaml]\ncases: []\n":                                            "bad.yaml:",
		"documents: []\ncases:\n- {name: a, event: {source: file, data: {pth: /x}}}\n":  `unknown field "pth"`,
		"documents: []\ncases:\n- {name: a, event: {source: domain, data: {vm: 12}}}\n": "event.data does not fit",
	} {
		t.Run(want, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "cases.txt")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte("kind: Trigger\n"), 0o600))

			file, triggers, err := cases.Load(path)
			if err == nil {
				_, err = cases.Run(t.Context(), file, triggers)
			}

			require.ErrorContains(t, err, want)
		})
	}
}

func TestCasesGiveTheObjectsThatTheirEventNames(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))

		return path
	}

	write("t.yaml", `{apiVersion: gateway/v1alpha1, kind: Trigger, metadata: {name: t}, spec: {on: {source: webhook},
  when: "objects.exists(o, o.status.state == 'running' && o.metadata.labels.tier == 'web')",
  do: [{publish: {subject: "seen.${objects[0].metadata.name}"}}]}}`)
	write("vms.json", `{"items":[{"kind":"VM","metadata":{"name":"a","labels":{"tier":"web"}},"status":{"state":"running"}}]}`)
	write("vm.json", `{"kind":"VM","metadata":{"name":"b","labels":{"tier":"web"}},"status":{"state":"stopped"}}`)

	path := write("cases.txt", `documents: [t.yaml]
cases:
- {name: inline, event: {source: webhook}, expect: {fired: [t], actions: [{publish: {subject: seen.w}}]},
   objects: [{apiVersion: gateway/v1alpha1, kind: VM, metadata: {name: w, labels: {tier: web}}, status: {state: running}}]}
- {name: a list, event: {source: webhook}, expect: {fired: [t]}, objects: [{recorded: vm.json}, {recorded: vms.json}]}
- {name: one, event: {source: webhook}, expect: {fired: []}, objects: [{recorded: vm.json}]}
- {name: none, event: {source: webhook}, expect: {fired: []}}
`)

	file, loaded, err := cases.Load(path)
	require.NoError(t, err)

	results, err := cases.Run(t.Context(), file, loaded)
	require.NoError(t, err)
	require.Len(t, results, 4)

	for _, r := range results {
		require.Empty(t, r.Differences, r.Name)
	}

	for given, want := range map[string]string{
		`[{recorded: none.json}]`: "objects[0]: " + filepath.Join(dir, "none.json") + ": no such file or directory",
		`[{recorded: t.yaml}]`:    "not what `gateway get -o json` writes",
		`[{kind: VM}]`:            "objects[0]: an object has a kind and a metadata.name",
		`[7]`:                     "objects[0]: an object, or {recorded: FILE}, is needed",
	} {
		file, loaded, err := cases.Load(write("cases.txt", "documents: [t.yaml]\ncases: [{name: x, event: {source: webhook}, objects: "+given+"}]\n"))
		require.NoError(t, err)

		_, err = cases.Run(t.Context(), file, loaded)
		require.ErrorContains(t, err, want)
	}
}
