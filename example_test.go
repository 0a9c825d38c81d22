package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/cosi-project/runtime/pkg/state"

	"gateway"
	"gateway/config"
	"gateway/resources"
)

// A service of somebody else embeds the gateway: its own HTTP handler declares a VM, and answers 202 once that is durable.
func Example() {
	cfg := config.Default()
	cfg.DataDir = "/var/lib/my-service/gateway"

	g, err := gateway.New(cfg)
	if err != nil {
		panic(err)
	}

	http.HandleFunc("POST /machines/{name}", machines(g))

	if err := g.Run(context.Background()); err != nil {
		panic(err)
	}
}

// machines declares the VM that the path names.
func machines(g *gateway.Gateway) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		vm := resources.NewVMConfig(r.PathValue("name"))
		vm.TypedSpec().CPUs = 2
		vm.TypedSpec().Memory = 1 * resources.GiB

		err := g.State().Create(r.Context(), vm)
		if err == nil {
			err = g.Barrier(r.Context())
		}

		switch {
		case state.IsConflictError(err):
			http.Error(w, err.Error(), http.StatusConflict)
		case err != nil:
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		default:
			w.WriteHeader(http.StatusAccepted)
			_ = json.NewEncoder(w).Encode(map[string]string{"uid": resources.UIDOf(vm.Metadata())}) // the client may be gone
		}
	}
}
