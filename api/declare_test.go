package api_test

import (
	"testing"

	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/stretchr/testify/require"

	"gateway/api"
	"gateway/api/apitest"
	"gateway/api/client"
	"gateway/resources"
	"gateway/store"
)

const twoVMs = `apiVersion: gateway/v1alpha1
kind: VM
metadata: {name: web-1}
spec: {cpus: 2}
---
apiVersion: gateway/v1alpha1
kind: VM
metadata: {name: web-2}
---
apiVersion: gateway/v1alpha1
kind: Host
metadata: {name: a}
spec: {uri: "sim://a"}
`

func outcomes(objects []resources.AppliedObject) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.Kind+"/"+o.Name+" "+o.Outcome)
	}

	return all
}

func TestApplyDeclaresWhatOthersNeedFirst(t *testing.T) {
	w := apitest.Start(t)

	objects, err := w.Client.Apply(t.Context(), "web.yaml", []byte(twoVMs), true)
	require.NoError(t, err)
	require.Equal(t, []string{"Host/a created", "VM/web-1 created", "VM/web-2 created"}, outcomes(objects))
	require.Equal(t, 10, objects[0].Line)

	list, err := w.Client.List(t.Context(), "VM", "")
	require.NoError(t, err)
	require.Empty(t, list.Items, "a dry run changes nothing")

	for _, outcome := range []string{"created", "unchanged"} {
		objects, err = w.Client.Apply(t.Context(), "web.yaml", []byte(twoVMs), false)
		require.NoError(t, err)
		require.Equal(t, []string{"Host/a " + outcome, "VM/web-1 " + outcome, "VM/web-2 " + outcome}, outcomes(objects))
	}

	objects, err = w.Client.Apply(t.Context(), "-", []byte("apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: web-1}\n"), false)
	require.NoError(t, err)
	require.Equal(t, []string{"VM/web-1 updated"}, outcomes(objects))
	require.Equal(t, int64(2), objects[0].Revision)
}

func TestAnObjectThatIsRefusedDoesNotStopTheOthers(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)

	documents := twoVMs + `---
apiVersion: gateway/v1alpha1
kind: Host
metadata: {name: b}
spec: {uri: "xen:///system"}
---
apiVersion: gateway/v1alpha1
kind: Network
metadata: {name: lan, revision: 3}
spec: {subnet: 10.7.0.0/24}
`

	objects, err := w.Client.Apply(t.Context(), "web.yaml", []byte(documents), false)
	require.NoError(t, err)
	require.Equal(t, []string{"Host/a created", "Host/b refused", "Network/lan refused", "VM/web-1 conflict", "VM/web-2 created"}, outcomes(objects))
	require.Contains(t, objects[1].Message, "policy.hostURIs")
	require.Contains(t, objects[2].Message, "revision 3 is expected, but the object does not exist")
	require.Equal(t, "is declared by the file "+apitest.File.Name+": change it there", objects[3].Message)
}

func TestDocumentsWithAFaultAreRefusedWhole(t *testing.T) {
	w := apitest.Start(t)

	_, err := w.Client.Apply(t.Context(), "web.yaml", []byte(twoVMs+"---\nkind: VM\nspecs: {}\n"), false)
	problem := new(client.ProblemError)
	require.ErrorAs(t, err, &problem)
	require.Contains(t, problem.Errors, `web.yaml:16:1: unknown field "specs": did you mean "spec"?`)

	list, err := w.Client.List(t.Context(), "VM", "")
	require.NoError(t, err)
	require.Empty(t, list.Items)
}

func TestDeleteKnowsWhoMayTakeAway(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)

	protected := resources.NewVMConfig("precious")
	protected.TypedSpec().Protect = true
	w.Declare(protected)

	_, err := w.Client.Apply(t.Context(), "-", []byte("apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: mine}\n"), false)
	require.NoError(t, err)

	for text, test := range map[string]struct {
		kind, name string
		force      bool
		reason     string
		want       string
	}{
		"a file's":            {"VM", "web-1", false, resources.ReasonNotOwned, "VM/web-1: is declared by the file " + apitest.File.Name + ": remove it there"},
		"protected":           {"VM", "precious", true, resources.ReasonProtected, "VM/precious: spec.protect is true: set it to false where the object is declared, then delete it"},
		"not there":           {"VM", "nope", false, "", `VM "nope": not found`},
		"of a kind to delete": {"VMStatus", "mine", false, "", `a VMStatus is not declared by anybody and can't be deleted`},
	} {
		t.Run(text, func(t *testing.T) {
			w.Observe("mine", func(*resources.VMStatusSpec) {})

			err := w.Client.Delete(t.Context(), test.kind, test.name, test.force)
			problem := new(client.ProblemError)
			require.ErrorAs(t, err, &problem)
			require.Equal(t, api.Problem{Reason: test.reason, Errors: []string{test.want}}, problem.Problem)
		})
	}

	require.NoError(t, w.Client.Delete(t.Context(), "vms", "mine", false))
	require.NoError(t, w.Client.Delete(t.Context(), "vm", "web-1", true))

	for _, name := range []string{"mine", "web-1"} {
		vm, err := w.State.Get(t.Context(), resources.NewVMConfig(name).Metadata())
		require.NoError(t, err)
		require.Equal(t, resource.PhaseTearingDown, vm.Metadata().Phase())
	}

	forced, err := w.Store.Journal().Query(t.Context(), store.Query{Classes: []store.Class{store.ClassForced}})
	require.NoError(t, err)
	require.Len(t, forced, 1)
	require.Equal(t, "VM/web-1", forced[0].Object)
}

func TestAForcedDeletionPassesAHold(t *testing.T) {
	const by = "a disk is copied"

	for name, test := range map[string]struct {
		protect, goes, force bool
		want                 string
	}{
		"of what it takes away":                   {force: true, want: resources.HoldForced},
		"of what is in teardown already":          {goes: true, force: true, want: resources.HoldForced},
		"not when it is not forced":               {goes: true, want: by},
		"not when it is refused, as of `protect`": {protect: true, force: true, want: by},
	} {
		t.Run(name, func(t *testing.T) {
			w := apitest.Start(t)
			vm := resources.NewVMConfig("web-1")
			vm.TypedSpec().Protect = test.protect
			w.Declare(vm)
			require.NoError(t, w.Client.Hold(t.Context(), "VM", "web-1", by))

			if test.goes {
				_, err := w.State.Teardown(t.Context(), vm.Metadata())
				require.NoError(t, err)
			}

			err := w.Client.Delete(t.Context(), "VM", "web-1", test.force)
			require.Equal(t, test.protect, err != nil, "%v", err)

			hold, err := w.State.Get(t.Context(), resources.NewHold("vm.web-1").Metadata())
			require.NoError(t, err)
			require.Equal(t, test.want, hold.(*resources.Hold).TypedSpec().Reason) //nolint:forcetypeassert // one type a kind
		})
	}
}
