package api_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/api"
	"gateway/api/apitest"
	"gateway/api/client"
	"gateway/resources"
)

func names(list client.List) []string {
	all := []string{}
	for _, o := range list.Items {
		all = append(all, o.Metadata.Name)
	}

	return all
}

func TestObjectsAreListedByNameAndChosenByLabels(t *testing.T) {
	w := apitest.Start(t)
	for _, name := range []string{"web-2", "db", "web-1"} {
		w.VM(name, map[string]string{"tier": name[:2]})
	}

	for text, test := range map[string]struct {
		kind, selector string
		want           []string
	}{
		"all":                     {"VM", "", []string{"db", "web-1", "web-2"}},
		"the empty selector":      {"VM", "{}", []string{"db", "web-1", "web-2"}},
		"labels":                  {"vms", "tier=we", []string{"web-1", "web-2"}},
		"labels that none has":    {"VM", "tier=we,rack=1", []string{}},
		"a kind without any":      {"hosts", "", []string{}},
		"a kind in capitals":      {"VMS", "tier=db", []string{"db"}},
		"kinds of nobody's":       {"vmstatus", "", []string{}},
		"a selector with a space": {"VM", "tier = db", []string{"db"}},
	} {
		t.Run(text, func(t *testing.T) {
			list, err := w.Client.List(t.Context(), test.kind, test.selector)
			require.NoError(t, err)
			require.Equal(t, test.want, names(list))
		})
	}

	_, err := w.Client.List(t.Context(), "VM", "tier")
	require.EqualError(t, err, `"tier" is not a selector: write KEY=VALUE, several separated by commas`)

	_, err = w.Client.List(t.Context(), "pods", "")
	require.ErrorContains(t, err, `"pods" is not a kind: use one of Host, Image,`)
}

func TestAnObjectHasBothHalves(t *testing.T) {
	w := apitest.Start(t)
	vm := resources.NewVMConfig("web-1")
	vm.TypedSpec().CloudInit = &resources.CloudInit{UserData: "password: secret"}
	w.Declare(vm)

	object, err := w.Client.Get(t.Context(), "vm", "web-1")
	require.NoError(t, err)
	require.Empty(t, object.Status, "nothing was observed yet")

	w.Observe("web-1", func(s *resources.VMStatusSpec) { s.State, s.Host = resources.StateRunning, "a" })

	object, err = w.Client.Get(t.Context(), "vm", "web-1")
	require.NoError(t, err)
	require.Equal(t, "gateway/v1alpha1", object.APIVersion)
	require.Equal(t, "VM", object.Kind)
	require.Equal(t, int64(1), object.Metadata.Revision)
	require.Equal(t, apitest.File.String(), object.Metadata.Origin)
	require.NotEmpty(t, object.Metadata.UID)
	require.Contains(t, string(object.Spec), `"<redacted sha256:`)
	require.NotContains(t, string(object.Spec), "secret")

	status, err := client.StatusOf[resources.VMStatusSpec](&object)
	require.NoError(t, err)
	require.Equal(t, "a", status.Host)

	_, err = w.Client.Get(t.Context(), "vm", "web-2")
	require.EqualError(t, err, `VM "web-2": not found`)
	require.True(t, client.IsNotFound(err))
}

func TestAFileIsJoinedWithWhatBecameOfItsDocuments(t *testing.T) {
	w := apitest.Start(t)
	id := resources.FileID(apitest.File.Name)

	file := resources.NewFileStatus(id)
	file.TypedSpec().Path, file.TypedSpec().Bytes = apitest.File.Name, 12
	require.NoError(t, w.State.Create(t.Context(), file))

	object, err := w.Client.Get(t.Context(), "file", id)
	require.NoError(t, err)
	require.JSONEq(t, `{"path": "`+apitest.File.Name+`", "root": "", "bytes": 12}`, string(object.Status))

	result := resources.NewApplyResult(id)
	result.TypedSpec().Error = "web.yaml:1:1: broken"
	result.TypedSpec().Objects = []resources.AppliedObject{{Kind: "VM", Name: "web-1", Outcome: resources.OutcomeConflict, Message: "is declared elsewhere"}}
	require.NoError(t, w.State.Create(t.Context(), result))

	list, err := w.Client.List(t.Context(), "files", "")
	require.NoError(t, err)
	require.Len(t, list.Items, 1)

	status, err := client.StatusOf[api.FileStatus](&list.Items[0])
	require.NoError(t, err)
	require.Equal(t, result.TypedSpec().Objects, status.Objects)
	require.Equal(t, "web.yaml:1:1: broken", status.ApplyError)
	require.Equal(t, int64(12), status.Bytes)

	w.VM("web-1", nil)

	description, err := w.Client.Describe(t.Context(), "VM", "web-1")
	require.NoError(t, err)
	require.Equal(t, []string{": is declared elsewhere"}, description.Conflicts)
}

func TestADescriptionHasEverythingAboutAVM(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)
	require.NoError(t, w.Client.Power(t.Context(), "web-1", resources.PowerStopped, time.Hour))
	require.NoError(t, w.Client.Hold(t.Context(), "VM", "web-1", "a test"))

	placement := resources.NewVMPlacement("web-1")
	placement.TypedSpec().Reason = resources.ReasonNoHosts
	require.NoError(t, w.State.Create(t.Context(), placement))

	d, err := w.Client.Describe(t.Context(), "vms", "web-1")
	require.NoError(t, err)
	require.Equal(t, "web-1", d.Object.Metadata.Name)
	require.Equal(t, resources.ReasonNoHosts, d.Placement.Reason)
	require.Nil(t, d.Networks)
	require.JSONEq(t, `{"power": "stopped"}`, string(d.Override.Patch))
	require.Equal(t, "a test", d.Hold.Reason)
	require.False(t, d.Deleting)

	var happened []string
	for _, e := range d.Events {
		happened = append(happened, string(e.Class)+" "+e.Name)
	}

	require.Equal(t, []string{"revision " + apitest.File.Name, "command power stopped", "command hold"}, happened)

	require.NoError(t, w.Client.Delete(t.Context(), "VM", "web-1", true))

	d, err = w.Client.Describe(t.Context(), "VM", "web-1")
	require.NoError(t, err)
	require.True(t, d.Deleting)

	_, err = w.Client.Describe(t.Context(), "VM", "web-2")
	require.True(t, client.IsNotFound(err))
}

func TestAWatchSendsWhatIsThereAndThenEachChange(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", map[string]string{"tier": "web"})
	w.VM("db", map[string]string{"tier": "db"})

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	var steps []string

	err := w.Client.Watch(ctx, "vm", "", "tier=web", func(c client.Change) (bool, error) {
		step := c.Type + " " + c.Name
		if c.Object != nil {
			status, err := client.StatusOf[resources.VMStatusSpec](c.Object)
			require.NoError(t, err)

			step += " " + status.State
		}

		steps = append(steps, step)

		switch len(steps) {
		case 2:
			w.Observe("web-1", func(s *resources.VMStatusSpec) { s.State = resources.StateRunning })
		case 3:
			w.VM("db-2", map[string]string{"tier": "db"})
			w.VM("web-2", map[string]string{"tier": "web"})
		case 4:
			w.VM("web-1", map[string]string{"tier": "db"}) // goes away for who asks for tier=web
		case 5:
			return false, nil
		}

		return true, nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"current web-1 ", "synced ", "changed web-1 running", "changed web-2 ", "deleted web-1"}, steps)
}

func TestAFileIsWatchedWithItsDocuments(t *testing.T) {
	w := apitest.Start(t)
	id := resources.FileID(apitest.File.Name)
	require.NoError(t, w.State.Create(t.Context(), resources.NewFileStatus(id)))

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()

	var last json.RawMessage

	err := w.Client.Watch(ctx, "file", id, "", func(c client.Change) (bool, error) {
		switch c.Type {
		case client.Synced:
			result := resources.NewApplyResult(id)
			result.TypedSpec().Error = "broken"
			require.NoError(t, w.State.Create(t.Context(), result))
		case client.Changed:
			last = c.Object.Status

			return false, nil
		}

		return true, nil
	})
	require.NoError(t, err)
	require.Contains(t, string(last), `"applyError":"broken"`)
}

func TestOverriddenLabelsAreThoseOfTheObject(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", map[string]string{"tier": "web", "tag": "old"})
	w.VM("web-2", map[string]string{"tier": "web", "tag": "old"})

	o := resources.NewOverride("web-1")
	o.TypedSpec().Labels = resources.JSON(`{"tag":"new"}`)
	require.NoError(t, w.State.Create(t.Context(), o))

	list, err := w.Client.List(t.Context(), "vm", "tag=new")
	require.NoError(t, err)
	require.Equal(t, []string{"web-1"}, names(list))
	require.Equal(t, map[string]string{"tier": "web", "tag": "new"}, list.Items[0].Metadata.Labels)

	list, err = w.Client.List(t.Context(), "vm", "tag=old")
	require.NoError(t, err)
	require.Equal(t, []string{"web-2"}, names(list))

	object, err := w.Client.Get(t.Context(), "vm", "web-1")
	require.NoError(t, err)
	require.Equal(t, "new", object.Metadata.Labels["tag"])
}
