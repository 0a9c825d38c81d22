package api_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"gateway/api"
	"gateway/api/apitest"
	"gateway/resources"
	"gateway/store"
)

// socketClient speaks plain HTTP to a socket.
type socketClient struct{ *http.Client }

func overSocket(path string) socketClient {
	return socketClient{&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}}
}

// status returns the status of the answer to METHOD PATH.
func (c socketClient) status(t *testing.T, request string) int {
	t.Helper()

	method, path, _ := strings.Cut(request, " ")

	r, err := http.NewRequestWithContext(t.Context(), method, "http://gateway"+path, nil)
	require.NoError(t, err)

	response, err := c.Do(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())

	return response.StatusCode
}

// cosi returns the state as COSI's own client sees it over the socket.
func cosi(t *testing.T, w *apitest.World) state.State {
	t.Helper()

	conn, err := grpc.NewClient("unix://"+w.Path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })

	return state.WrapCore(client.NewAdapter(v1alpha1.NewStateClient(conn)))
}

func TestTheCOSIStateIsServedOverGRPC(t *testing.T) {
	w := apitest.Start(t)
	st := cosi(t, w)

	events := make(chan state.Event)
	require.NoError(t, st.WatchKind(t.Context(), resources.NewVMConfig("").Metadata(), events))

	vm := resources.NewVMConfig("web-1")
	vm.TypedSpec().CPUs = 4
	require.NoError(t, st.Create(t.Context(), vm))

	created := <-events
	require.Equal(t, state.Created, created.Type)
	require.Equal(t, 4, created.Resource.(*resources.VMConfig).TypedSpec().CPUs) //nolint:forcetypeassert // one type a kind
	require.NotEmpty(t, resources.UIDOf(created.Resource.Metadata()), "it passed the admission layer")
	require.Equal(t, "api", resources.OriginOf(created.Resource.Metadata()).String())

	list, err := st.List(t.Context(), resources.NewVMConfig("").Metadata())
	require.NoError(t, err)
	require.Len(t, list.Items, 1)

	_, err = st.Teardown(t.Context(), vm.Metadata())
	require.NoError(t, err)

	updated := <-events
	require.Equal(t, resource.PhaseTearingDown, updated.Resource.Metadata().Phase())
}

func TestGRPCHoldsTheSameRulesAsEveryOtherWayIn(t *testing.T) {
	w := apitest.Start(t)
	st := cosi(t, w)
	w.VM("web-1", nil)

	protected := resources.NewVMConfig("precious")
	protected.TypedSpec().Protect = true
	require.NoError(t, st.Create(t.Context(), protected))

	foreign := resources.NewHost("x")
	foreign.TypedSpec().URI = "xen:///system"

	for text, test := range map[string]struct {
		do   func() error
		code codes.Code
		want string
	}{
		"a name that is none": {func() error { return st.Create(t.Context(), resources.NewVMConfig("Web_1")) }, codes.InvalidArgument, "Invalid"},
		"a URI beyond policy": {func() error { return st.Create(t.Context(), foreign) }, codes.PermissionDenied, "policy.hostURIs"},
		"a status":            {func() error { return st.Create(t.Context(), resources.NewVMStatus("web-1")) }, codes.PermissionDenied, "read-only"},
		"a protected VM": {func() error {
			_, err := st.Teardown(t.Context(), protected.Metadata())

			return err
		}, codes.PermissionDenied, "spec.protect is true"},
		"a file's VM": {func() error {
			_, err := st.Teardown(t.Context(), resources.NewVMConfig("web-1").Metadata())

			return err
		}, codes.PermissionDenied, "is declared by the file " + apitest.File.Name},
		"a file's VM changed": {func() error {
			_, err := st.UpdateWithConflicts(t.Context(), resources.NewVMConfig("web-1").Metadata(), func(r resource.Resource) error {
				r.(*resources.VMConfig).TypedSpec().CPUs = 8 //nolint:forcetypeassert // one type a kind

				return nil
			})

			return err
		}, codes.PermissionDenied, "is declared by the file"},
	} {
		t.Run(text, func(t *testing.T) {
			err := test.do()
			require.ErrorContains(t, err, "code = "+test.code.String()+" desc", "COSI's client keeps the code in the text only")
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestTheSocketIsForItsGroup(t *testing.T) {
	w := apitest.Start(t)
	info, err := os.Stat(w.Path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o660)|os.ModeSocket, info.Mode())
}

func TestAPathThatIsTooLongIsSaidSo(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", "/tmp/"+strings.Repeat("long/", 30))

	memory := store.NewMemory("test")
	_, err := api.ListenSocket(api.SocketOptions{Store: memory, Admission: store.NewAdmission(nil, memory.Journal()), Logger: zap.NewNop()})
	require.ErrorContains(t, err, "at most 107 are possible: choose a shorter dataDir")
}

func TestTheVersionNamesTheGateway(t *testing.T) {
	w := apitest.Start(t)
	version, err := w.Client.Version(t.Context())
	require.NoError(t, err)
	require.Equal(t, api.Version{Version: "v1.2.3", ID: "test", Documents: []string{apitest.File.Root}}, version)
}
