package api_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gateway/api"
	"gateway/api/apitest"
	"gateway/hypervisor"
	"gateway/resources"
)

// foreign is a domain with the mark of a gateway; without one, of nobody.
func foreign(name, gateway string) hypervisor.Domain {
	d := hypervisor.Domain{
		Name: name, UUID: hypervisor.DomainUUID("somebody", name), Gateway: gateway, State: resources.StateRunning,
		Spec: hypervisor.DomainSpec{CPUs: 1, Memory: resources.GiB},
	}
	if gateway != "" {
		d.VM = name
	}

	return d
}

// importOf asks for an import, and returns the names of the documents and all remarks.
func importOf(t *testing.T, w *apitest.World, request api.ImportRequest) (names []string, remarks string, err error) {
	t.Helper()

	imported, err := w.Client.Import(t.Context(), request)

	for _, item := range imported.Items {
		var object struct {
			Metadata struct{ Name string }
		}

		require.NoError(t, json.Unmarshal(item, &object))
		names = append(names, object.Metadata.Name)
	}

	return names, fmt.Sprint(imported.Remarks, imported.Unasked), err
}

func TestImportOfAllDomains(t *testing.T) {
	w := apitest.Start(t)
	host := w.Host("a")
	require.NoError(t, host.AddDomain(foreign("Windows10", "")))
	require.NoError(t, host.AddDomain(foreign("web", "lost")))

	names, remarks, err := importOf(t, w, api.ImportRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"web", "windows10"}, names, "after a loss of the data nothing is this gateway's")
	require.Contains(t, remarks, "apply its document only if that gateway is gone for good")

	require.NoError(t, host.AddDomain(foreign("own", "test")))
	w.VM("own", nil)

	names, remarks, err = importOf(t, w, api.ImportRequest{Host: "a"})
	require.NoError(t, err)
	require.Equal(t, []string{"windows10"}, names, "of a gateway that lives nothing is taken")
	require.Contains(t, remarks, "--from lost takes its domains over")

	w.VM("web", nil)

	names, _, err = importOf(t, w, api.ImportRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"web", "windows10"}, names, "a VM that is declared waits for it")

	require.NoError(t, host.AddDomain(foreign("db", "other")))

	names, _, err = importOf(t, w, api.ImportRequest{From: []string{"other"}})
	require.NoError(t, err)
	require.Equal(t, []string{"db", "windows10"}, names)

	names, _, err = importOf(t, w, api.ImportRequest{From: []string{"other", "lost"}})
	require.NoError(t, err)
	require.Equal(t, []string{"db", "web", "windows10"}, names)

	away := resources.NewHost("b")
	away.TypedSpec().URI = "sim://b"
	w.Declare(away)

	names, remarks, err = importOf(t, w, api.ImportRequest{})
	require.NoError(t, err)
	require.NotEmpty(t, names)
	require.Contains(t, remarks, "it is away")
}

func TestDomainsOfSeveralGatewaysAreNotGuessedAt(t *testing.T) {
	w := apitest.Start(t)
	host := w.Host("a")
	require.NoError(t, host.AddDomain(foreign("web", "lost")))
	require.NoError(t, host.AddDomain(foreign("db", "other")))

	_, _, err := importOf(t, w, api.ImportRequest{})
	require.ErrorContains(t, err, "name those that are gone for good with --from: lost, other")
}

func TestImportOfOneDomain(t *testing.T) {
	w := apitest.Start(t)

	_, _, err := importOf(t, w, api.ImportRequest{VM: "web", Domain: "x"})
	require.ErrorContains(t, err, "no host is declared")

	host := w.Host("a")
	require.NoError(t, host.AddDomain(foreign("Windows10", "")))
	require.NoError(t, host.AddDomain(foreign("web", "test")))
	w.VM("web", nil)
	w.Observe("web", func(s *resources.VMStatusSpec) { s.DomainUUID, s.Host = foreign("web", "test").UUID, "a" })

	for _, domain := range []string{"Windows10", foreign("Windows10", "").UUID} {
		names, _, err := importOf(t, w, api.ImportRequest{VM: "desk", Domain: domain})
		require.NoError(t, err)
		require.Equal(t, []string{"desk"}, names)
	}

	for name, test := range map[string]struct {
		request api.ImportRequest
		want    string
	}{
		"a domain that is not there":  {api.ImportRequest{VM: "desk", Domain: "nobody"}, `domain "nobody" on host "a": not found`},
		"a host that is not declared": {api.ImportRequest{Host: "z", VM: "desk", Domain: "Windows10"}, `host "z": not found`},
		"a domain of ours":            {api.ImportRequest{VM: "desk", Domain: "web"}, `is that of VM "web" already`},
		"a VM that has a domain":      {api.ImportRequest{VM: "web", Domain: "Windows10"}, `VM "web" has a domain already`},
		"a name that is none":         {api.ImportRequest{VM: "My VM", Domain: "Windows10"}, "My VM"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := importOf(t, w, test.request)
			require.ErrorContains(t, err, test.want)
		})
	}

	w.Host("b")
	delete(w.Hosts, "b")

	_, _, err = importOf(t, w, api.ImportRequest{VM: "desk", Domain: "Windows10"})
	require.ErrorContains(t, err, "name the host with --host: there are a, b")

	_, _, err = importOf(t, w, api.ImportRequest{Host: "b", VM: "desk", Domain: "Windows10"})
	require.ErrorContains(t, err, "it is away")
}

func TestADocumentThatNamesWhomItReplacesTakesTheObjectOver(t *testing.T) {
	w := apitest.Start(t)
	w.VM("web-1", nil)

	apply := func(annotation string) error {
		text := "apiVersion: gateway/v1alpha1\nkind: VM\nmetadata: {name: web-1, annotations: {" + annotation + "}}\nspec: {cpus: 2}\n"
		objects, err := w.Client.Apply(t.Context(), "-", []byte(text), false)
		require.NoError(t, err)

		if objects[0].Outcome != resources.OutcomeUpdated {
			return fmt.Errorf("%+v", objects[0])
		}

		return nil
	}

	require.Error(t, apply(""))
	require.Error(t, apply(`gateway/replaces: "file:/another/file.yaml"`))
	require.NoError(t, apply(`gateway/replaces: "`+apitest.File.String()+`"`))

	object, err := w.Client.Get(t.Context(), "VM", "web-1")
	require.NoError(t, err)
	require.Equal(t, "api", object.Metadata.Origin)
}
