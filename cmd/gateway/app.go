package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"gateway/api/client"
)

// Exit codes, as the contract lists them.
const (
	exitDone         = 0
	exitFailed       = 1
	exitUsage        = 2
	exitUnreachable  = 3
	exitNotConverged = 4
)

// app is one call of the program.
type app struct {
	in       io.Reader
	out, err io.Writer
	server   string
	// started reports that flags and arguments were in order: what fails from then on is no wrong usage.
	started bool
}

func newApp() *app { return &app{in: os.Stdin, out: os.Stdout, err: os.Stderr} }

// exitError is an error with its exit code.
type exitError struct {
	error

	code int
}

func (e *exitError) Unwrap() error { return e.error }

// usageError is a wrong call of a command.
func usageError(format string, args ...any) error {
	return &exitError{fmt.Errorf(format, args...), exitUsage}
}

// errSilent fails a command whose errors are printed already.
var errSilent = errors.New("")

// run runs the command that the arguments name, prints its error, and returns the exit code.
func (a *app) run(args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)

	cmd, err := root.ExecuteC()
	if err == nil {
		return exitDone
	}

	if !a.started && cmd != root {
		err = fmt.Errorf("%w: usage: %s", err, cmd.UseLine())
	}

	a.complain(err)

	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}

	switch {
	case errors.Is(err, client.ErrUnreachable):
		return exitUnreachable
	case !a.started, errors.Is(err, client.ErrAddress):
		return exitUsage
	}

	return exitFailed
}

// complain prints an error, one line for each fault.
func (a *app) complain(err error) {
	for line := range strings.SplitSeq(strings.TrimSpace(err.Error()), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintln(a.err, "gateway: "+line)
		}
	}
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "gateway",
		Short:         "Keeps libvirt hypervisors in their declared state",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		// A PersistentPreRun runs after flags and arguments were checked.
		PersistentPreRun: func(*cobra.Command, []string) { a.started = true },
		RunE:             func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2 // SuggestionsFor has no default of its own
	root.PersistentFlags().StringVar(&a.server, "server", "", "address of the gateway: unix:///PATH (default $GATEWAY_SERVER, then the usual sockets)")
	root.AddCommand(
		a.runCommand(), a.validateCommand(), a.applyCommand(), a.diffCommand(), a.getCommand(), a.describeCommand(), a.waitCommand(), a.deleteCommand(),
		a.eventsCommand(), a.syncCommand(), a.holdCommand(), a.releaseCommand(), a.confirmCommand(), a.importCommand(), a.consoleCommand(),
		a.graphCommand(), a.schemaCommand(), a.storeCommand(), a.versionCommand(),
	)

	root.AddCommand(a.powerCommands()...)
	a.addBridgeCommands(root)
	needShell(root)

	return root
}

// unknownCommand refuses arguments of the program itself, with the command that may be meant.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}

	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf(": did you mean %q?", near[0])
	}

	return fmt.Errorf("unknown command %q%s", args[0], hint)
}

// client returns the client of the gateway that --server, GATEWAY_SERVER or the usual places name.
func (a *app) client(ctx context.Context) (*client.Client, error) {
	server := a.server
	if server == "" {
		server = os.Getenv("GATEWAY_SERVER")
	}

	if server != "" {
		return client.New(server)
	}

	c, i, err := client.Find(ctx, client.DefaultSockets)
	if err == nil && i > 0 {
		fmt.Fprintln(a.err, "gateway: using "+c.Socket())
	}

	return c, err
}

// interruptible returns a context that ends with SIGINT or SIGTERM.
func interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
}

// isTerminal reports whether somebody watches a stream.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)

	return ok && term.IsTerminal(int(f.Fd()))
}
