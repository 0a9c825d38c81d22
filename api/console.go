package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cosi-project/runtime/pkg/state"

	"gateway/hypervisor"
	"gateway/resources"
)

// ConsoleProtocol is what a connection is upgraded to that carries a console: its bytes, both ways, until one side closes.
const ConsoleProtocol = "gateway-console"

// console attaches to the console of a VM: GET /v1/console/{vm}?force=true with `Upgrade: gateway-console`.
func (o *operations) console(w http.ResponseWriter, r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), ConsoleProtocol) {
		return usage("a console needs a connection that is upgraded to %s", ConsoleProtocol)
	}

	name := r.PathValue("vm")

	console, err := o.attach(r.Context(), name, r.URL.Query().Get("force") == "true")
	if err != nil {
		return err
	}
	defer console.Close() //nolint:errcheck // there is nobody left to tell

	if err := o.Finish(r.Context(), callerOf(r), "console", "VM/"+name); err != nil {
		return err
	}

	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return fmt.Errorf("error taking the connection over: %w", err)
	}

	defer conn.Close() //nolint:errcheck // see above

	relay(conn, buffered, console)

	return nil
}

// relay carries the bytes of both sides until one of them ends.
func relay(conn net.Conn, buffered io.Reader, console hypervisor.Console) {
	// The deadlines of the request's header are over.
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return
	}

	const answer = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + ConsoleProtocol + "\r\n\r\n"
	if _, err := io.WriteString(conn, answer); err != nil {
		return
	}

	ended := make(chan struct{}, 2)

	carry := func(to io.Writer, from io.Reader) {
		// However it ends, it is the end of the console, and the client looks at the VM to say why.
		_, _ = io.Copy(to, from)
		ended <- struct{}{}
	}

	go carry(console, buffered)
	go carry(conn, console)

	<-ended
}

// attach finds the domain of a VM and attaches to its console.
func (o *Operations) attach(ctx context.Context, name string, force bool) (hypervisor.Console, error) {
	vm, err := o.state.Get(ctx, resources.NewVMConfig(name).Metadata())
	if state.IsNotFoundError(err) {
		return nil, fmt.Errorf("VM %q: %w", name, errNotFound)
	}

	if err != nil {
		return nil, fmt.Errorf("error reading VM %q: %w", name, err)
	}

	var status resources.VMStatusSpec

	observed, err := o.state.Get(ctx, resources.NewVMStatus(vm.Metadata().ID()).Metadata())
	if err == nil {
		status = *observed.Spec().(*resources.VMStatusSpec) //nolint:forcetypeassert // one type a kind
	} else if !state.IsNotFoundError(err) {
		return nil, fmt.Errorf("error reading the status of VM %q: %w", name, err)
	}

	if status.Host == "" || status.DomainUUID == "" {
		return nil, usage("VM %q has no domain yet: `gateway describe vm %s` says what it waits for", name, name)
	}

	driver, err := o.driver(status.Host)
	if err != nil {
		return nil, err
	}

	console, err := driver.Console(ctx, status.DomainUUID, force)

	switch {
	case errors.Is(err, hypervisor.ErrOff), errors.Is(err, hypervisor.ErrNotFound):
		return nil, usage("VM %q is not running: `gateway start %s`", name, name)
	case errors.Is(err, hypervisor.ErrNoConsole):
		return nil, usage("VM %q has no serial console that can be attached to", name)
	case errors.Is(err, hypervisor.ErrUnsupported):
		return nil, usage("host %q has no consoles to attach to", status.Host)
	case errors.Is(err, hypervisor.ErrAttached):
		return nil, usage("somebody else is attached to the console of VM %q: --force takes it over", name)
	case errors.Is(err, hypervisor.ErrForeign):
		return nil, usage("the domain of VM %q is not this gateway's", name)
	case err != nil:
		return nil, err
	}

	return console, nil
}
