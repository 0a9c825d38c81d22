package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/resources"
)

// vmText returns a VM's document with the lines below spec, each indented by two spaces.
func vmText(name string, spec ...string) string {
	text := "apiVersion: gateway/v1alpha1\nkind: VM\nmetadata:\n  name: " + name + "\nspec:\n"
	for _, line := range spec {
		text += "  " + line + "\n"
	}

	return text
}

func decodeVM(t *testing.T, text string) *resources.VMConfigSpec {
	t.Helper()

	documents, err := Decode("vm.yaml", []byte(text))
	require.NoError(t, err)
	require.Len(t, documents, 1)

	return documents[0].Resource.(*resources.VMConfig).TypedSpec()
}

// faults returns the lines of the error.
func faults(t *testing.T, text string) []string {
	t.Helper()

	documents, err := Decode("f.yaml", []byte(text))
	require.Error(t, err, text)
	require.Nil(t, documents)
	require.IsType(t, Errors{}, err)

	return strings.Split(err.Error(), "\n")
}

func TestADocumentBecomesItsResource(t *testing.T) {
	documents, err := Decode("web.yaml", []byte(`# the front end
apiVersion: gateway/v1alpha1
kind: VM
metadata:
  name: web-1
  labels: {tier: web, country: NO}
  annotations: {team: "a"}
  revision: 7
spec:
  cpus: 2
  memory: 1GiB
  disks:
    - {name: root, size: 10GiB, image: debian-12}
  interfaces:
    - network: lan
  placement: {selector: {rack: r1}}
  shutdown: {grace: 0s}
  adopt: {}
---
{"apiVersion": "gateway/v1alpha1", "kind": "Host", "metadata": {"name": "a"}, "spec": {"uri": "sim://a", "overcommit": {"cpus": 2.5}, "schedulable": false}}
`))
	require.NoError(t, err)
	require.Len(t, documents, 2)

	vm := documents[0]
	require.Equal(t, "VM", vm.Kind.Name)
	require.Equal(t, int64(7), vm.ExpectRevision)
	require.Equal(t, []int{2, 1}, []int{vm.Line, vm.Column})

	md := vm.Resource.Metadata()
	require.Equal(t, "web-1", md.ID())
	require.Equal(t, map[string]string{"tier": "web", "country": "NO"}, md.Labels().Raw())
	require.Equal(t, map[string]string{"team": "a"}, resources.UserAnnotations(md))

	spec := vm.Resource.(*resources.VMConfig).TypedSpec()
	require.Equal(t, 2, spec.CPUs)
	require.Equal(t, resources.GiB, spec.Memory)
	require.Equal(t, resources.PowerRunning, spec.Power)
	require.Equal(t, []resources.Disk{{Name: "root", Size: 10 * resources.GiB, Image: "debian-12", OnDelete: "keep"}}, spec.Disks)
	require.Equal(t, map[string]string{"rack": "r1"}, spec.Placement.Selector)
	require.Zero(t, spec.Shutdown.Grace)
	require.Equal(t, &resources.Adopt{}, spec.Adopt)

	host := documents[1].Resource.(*resources.Host).TypedSpec()
	require.Equal(t, resources.Overcommit{CPUs: 2.5, Memory: 1, Disk: 1}, host.Overcommit)
	require.False(t, host.Schedulable)
}

func TestAnEmptyInputHasNoDocuments(t *testing.T) {
	for _, text := range []string{"", "\n", "---\n---\n", "# nothing\n", "null\n", "\ufeff"} {
		documents, err := Decode("f.yaml", []byte(text))
		require.NoError(t, err, "%q", text)
		require.Empty(t, documents, "%q", text)
	}
}

func TestFaultsAreFoundAtTheirPosition(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"an unknown field has the nearest known name": {
			vmText("a", "memroy: 1GiB"), []string{`f.yaml:6:3: unknown field "memroy" in spec: did you mean "memory"?`},
		},
		"another case of a field is its nearest name": {
			vmText("a", "maxCPUs: 3"), []string{`f.yaml:6:3: unknown field "maxCPUs" in spec: did you mean "maxCpus"?`},
		},
		"a field far from all is told what is known": {
			vmText("a", "shutdown: {zzz: 1}"), []string{`f.yaml:6:14: unknown field "zzz" in spec.shutdown: known are grace`},
		},
		"a number in quotes": {
			vmText("a", `cpus: "2"`), []string{`f.yaml:6:9: spec.cpus: a whole number is needed, not the string "2": leave out the quotes`},
		},
		"a number where text is needed": {
			vmText("a", "placement: {selector: {rack: 1.10}}"),
			[]string{`f.yaml:6:32: spec.placement.selector.rack: a string is needed, not the number "1.10": put it in quotes`},
		},
		"a duplicate key": {
			vmText("a", "cpus: 2", "cpus: 3"), []string{`f.yaml:7:3: "cpus" is already given in line 6`},
		},
		"a value that is not of the enum": {
			vmText("a", "power: runing"), []string{`f.yaml:6:10: spec.power: "runing" is not one of running, stopped, paused: did you mean "running"?`},
		},
		"an enum in a list": {
			vmText("a", "disks:", "- {name: a, size: 1GiB, onDelete: drop}"),
			[]string{`f.yaml:7:37: spec.disks[0].onDelete: "drop" is not one of keep, remove`},
		},
		"a boolean of YAML 1.1 is text": {
			vmText("a", "protect: yes"), []string{`f.yaml:6:12: spec.protect: a boolean is needed, not the string "yes"`},
		},
		"a number with a leading zero": {
			vmText("a", "cpus: 010"), []string{`f.yaml:6:9: spec.cpus: a whole number is needed, not the number "010"`},
		},
		"a number out of range": {
			vmText("a", "cpus: 99999999999999999999"), []string{`f.yaml:6:9: spec.cpus: 99999999999999999999 is out of range`},
		},
		"a mapping where a list is needed": {
			vmText("a", "disks: {name: a}"), []string{`f.yaml:6:10: spec.disks: a list is needed, not the mapping`},
		},
		"no apiVersion": {
			"kind: VM\nmetadata: {name: a}\n", []string{`f.yaml:1:1: apiVersion is required: write apiVersion: gateway/v1alpha1`},
		},
		"another apiVersion": {
			"apiVersion: v1\nkind: VM\nmetadata: {name: a}\n", []string{`f.yaml:1:13: apiVersion: "v1" is not known: write gateway/v1alpha1`},
		},
		"an unknown kind": {
			"apiVersion: gateway/v1alpha1\nkind: Vm\nmetadata: {name: a}\n", []string{`f.yaml:2:7: kind: "Vm" can't be declared: did you mean "VM"?`},
		},
		"a kind that nobody declares": {
			"apiVersion: gateway/v1alpha1\nkind: FileEvent\nmetadata: {name: a}\n",
			[]string{`f.yaml:2:7: kind: "FileEvent" can't be declared: use one of Host, Image, Network, Schedule, Subscription, Trigger, VM, Webhook`},
		},
		"no metadata": {
			"apiVersion: gateway/v1alpha1\nkind: VM\n", []string{`f.yaml:1:1: metadata: metadata with a name is required`},
		},
		"annotations of the gateway": {
			"apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: a, annotations: {gateway.dev/origin: api}}\n",
			[]string{"f.yaml:3:55: metadata.annotations.gateway.dev/origin: names starting with gateway.dev/ are the gateway's own"},
		},
		"a required field that is missing, at what holds it": {
			"apiVersion: gateway/v1alpha1\nkind: Host\nmetadata: {name: a}\nspec: {}\n",
			[]string{"f.yaml:4:1: spec.uri: a libvirt URI is required, as qemu:///system or sim://NAME"},
		},
		"the same object twice": {
			vmText("a", "cpus: 1") + "---\n" + vmText("a", "cpus: 1"), []string{"f.yaml:8:1: VM/a is already declared in line 1"},
		},
		"all faults of all documents, in order": {
			vmText("a", "cpus: x") + "---\n" + vmText("b", "cpus: 0", "nothing: 1"),
			[]string{
				`f.yaml:6:9: spec.cpus: a whole number is needed, not the string "x"`,
				`f.yaml:13:9: spec.cpus: 0 is not between 1 and 512`,
				`f.yaml:14:3: unknown field "nothing" in spec: known are description, power, cpus, maxCpus, memory, maxMemory, firmware, boot, disks, ` +
					`interfaces, cloudInit, graphics, guestAgent, placement, shutdown, onCrash, onGuestShutdown, protect, adopt`,
			},
		},
		"broken syntax after a document with a fault": {
			vmText("a", "cpus: x") + "---\na: b\n c: d\n",
			[]string{`f.yaml:6:9: spec.cpus: a whole number is needed, not the string "x"`, `f.yaml:9:3: mapping values are not allowed in this context`},
		},
		"a tab": {
			vmText("a", "shutdown:") + "\t\tgrace: 1s\n", []string{"f.yaml:7:1: a tab can't indent: use spaces"},
		},
		"quotes that are never closed, where they were opened": {
			vmText("a", `description: "abc`, "cpus: 1"), []string{"f.yaml:6:16: found unexpected end of stream while scanning a quoted scalar"},
		},
		"text that is no document": {
			"hello\n", []string{"f.yaml:1:1: a document is a mapping with apiVersion, kind, metadata and spec, not a string"},
		},
		"a tag of another schema": {
			vmText("a", "description: !!binary aGVsbG8="), []string{"f.yaml:6:16: spec.description: the tag !!binary is not supported"},
		},
		"a redacted secret": {
			vmText("a", "cloudInit: {userData: '<redacted sha256:00>'}"),
			[]string{"f.yaml:6:25: spec.cloudInit.userData: this is what is shown in place of the user data: write the user data itself"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, faults(t, test.text))
		})
	}
}

func TestCaseS22AFileThatWasCutIsRefused(t *testing.T) {
	whole := vmText("a", "cpus: 2", "disks:", "- name: root", "  size: 10GiB", "interfaces:", "- network: lan")
	require.Equal(t, 2, decodeVM(t, whole).CPUs)

	for _, cut := range []string{"cpus:", "disks:", "- ", "- name:", "network:", "spec:", "metadata:", "kind:"} {
		i := strings.Index(whole, cut)
		require.Positive(t, i, cut)

		end := "\n"
		if cut == "spec:" {
			end = "" // a line that ends is an empty specification
		}

		faults(t, whole[:i+len(cut)]+end)
	}

	require.Equal(t, []string{"f.yaml:7:4: spec.disks[0]: a value is missing in the list"}, faults(t, vmText("a", "disks:", "- ")))
	require.Equal(t, []string{"f.yaml:6:3: spec.cpus: a value is missing: write one, or leave the field out"}, faults(t, vmText("a", "cpus:")))
}

func TestASpecificationWithoutAValueIsTheEmptyOne(t *testing.T) {
	const head = "apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: a}\n"

	for _, text := range []string{head, head + "spec:\n", head + "spec: # all defaults\n", head + "spec:\n---\n", head + "spec: null\n", head + "spec: {}\n"} {
		require.Equal(t, *resources.NewVMConfig("").TypedSpec(), *decodeVM(t, text), text)
	}

	require.Equal(t, []string{"f.yaml:4:1: spec: a value is missing: write one, or leave the field out"}, faults(t, head+"spec:"))
	require.Equal(t, []string{"f.yaml:1:1: spec.uri: a libvirt URI is required, as qemu:///system or sim://NAME"},
		faults(t, "apiVersion: gateway/v1alpha1\nkind: Host\nmetadata: {name: a}\nspec:\n"))
}

func TestWhatTheGatewayWritesIsPassedOver(t *testing.T) {
	documents, err := Decode("f.yaml", []byte("apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: a, uid: x, created: 2026-05-01T08:00:00Z, origin: api, deleting: true, revision: 7}\n"+
		"status: {state: running, conditions: [{type: Converged}]}\n"))
	require.NoError(t, err)
	require.Equal(t, int64(7), documents[0].ExpectRevision, "the revision counts")
	require.Empty(t, resources.UIDOf(documents[0].Resource.Metadata()))
}

func TestWhatPolicyDoesNotAllowIsAFaultAtItsPosition(t *testing.T) {
	text := []byte("apiVersion: gateway/v1alpha1\nkind: Host\nmetadata: {name: a}\nspec:\n  uri: qemu+tcp://elsewhere/system\n")

	_, err := Decode("f.yaml", text)
	require.NoError(t, err)

	_, err = DecodeAllowed("f.yaml", text, Default().Policy)
	require.ErrorContains(t, err, "f.yaml:5:8: spec.uri: ")
}

func TestANullThatIsWrittenLeavesTheFieldOut(t *testing.T) {
	spec := decodeVM(t, vmText("a", "cpus: null", "adopt: ~", "disks: null"))
	require.Equal(t, 1, spec.CPUs)
	require.Nil(t, spec.Adopt)
	require.Nil(t, spec.Disks)
}

func TestCaseV5ImpossibleNumbersAreRefusedAtTheirField(t *testing.T) {
	for line, want := range map[string]string{
		"memory: 0":              "f.yaml:6:11: spec.memory: 0 is not between 16MiB and 64TiB",
		"memory: -1":             `f.yaml:6:11: spec.memory: "-1" is not a size: write a number and a unit, as 512MiB, 2GiB or 2GB`,
		"memory: 1PiB":           "f.yaml:6:11: spec.memory: 1PiB is not between 16MiB and 64TiB",
		"memory: 4000":           "f.yaml:6:11: spec.memory: 4kB is not between 16MiB and 64TiB",
		"memory: .nan":           `f.yaml:6:11: spec.memory: ".nan" is not a size: write a number and a unit, as 512MiB, 2GiB or 2GB`,
		"cpus: 0":                "f.yaml:6:9: spec.cpus: 0 is not between 1 and 512",
		"cpus: -1":               "f.yaml:6:9: spec.cpus: -1 is not between 1 and 512",
		"cpus: 100000":           "f.yaml:6:9: spec.cpus: 100000 is not between 1 and 512",
		"cpus: 1.5":              `f.yaml:6:9: spec.cpus: a whole number is needed, not the number "1.5"`,
		"cpus: 1e1":              `f.yaml:6:9: spec.cpus: a whole number is needed, not the number "1e1"`,
		"shutdown: {grace: -1s}": `f.yaml:6:21: spec.shutdown.grace: "-1s" is negative`,
	} {
		t.Run(line, func(t *testing.T) {
			require.Equal(t, []string{want}, faults(t, vmText("a", line)))
		})
	}
}

func TestCaseV6SizesOfBothSystemsAreDifferent(t *testing.T) {
	require.Equal(t, resources.Size(4e9), decodeVM(t, vmText("a", "memory: 4GB")).Memory)
	require.Equal(t, 4*resources.GiB, decodeVM(t, vmText("a", "memory: 4GiB")).Memory)
	require.Equal(t, 4*resources.GiB, decodeVM(t, vmText("a", "memory: 4294967296")).Memory)
}

func TestCaseV7NamesAreRefused(t *testing.T) {
	for _, name := range []string{`"../x"`, "a/b", ".", "é", `"\0"`, strings.Repeat("a", 64), "Web", `""`, "a_b", "-a"} {
		lines := faults(t, vmText(name, "cpus: 1"))
		require.Len(t, lines, 1)
		require.Regexp(t, `^f\.yaml:4:9: metadata\.name: `, lines[0])
	}

	require.Equal(t, []string{`f.yaml:4:9: metadata.name: a string is needed, not the number "12": put it in quotes`}, faults(t, vmText("12", "cpus: 1")))
	require.Equal(t, 1, decodeVM(t, vmText(`"12"`, "cpus: 1")).CPUs)
}

func TestCaseV8TextThatLooksLikeMarkupStaysText(t *testing.T) {
	text := "apiVersion: gateway/v1alpha1\nkind: VM\nmetadata:\n  name: a\n  labels: {quoted: 'a\"b<c>&'}\nspec: {description: '</name><x/>'}\n"
	documents, err := Decode("f.yaml", []byte(text))
	require.NoError(t, err)

	label, _ := documents[0].Resource.Metadata().Labels().Get("quoted")
	require.Equal(t, `a"b<c>&`, label)
	require.Equal(t, "</name><x/>", documents[0].Resource.(*resources.VMConfig).TypedSpec().Description)
}

// A link in a documents directory may lead to a file of passwords, and errors are published.
func TestWhatIsNoNameOfFieldsIsNotRepeated(t *testing.T) {
	for name, text := range map[string]string{
		"a field":            "root:$6$salt$hash:1: 1\n",
		"a field, twice":     "root:$6$salt$hash:1: 1\nroot:$6$salt$hash:1: 1\n",
		"a field of objects": vmText("a", "'root:$6$salt$hash:1': 1"),
		"no field":           "root:$6$salt$hash:1\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode("f.yaml", []byte(text))
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hash")
		})
	}
}
