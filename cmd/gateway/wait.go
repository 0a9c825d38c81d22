package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gateway/api/client"
	"gateway/resources"
)

func (a *app) waitCommand() *cobra.Command {
	var (
		goal    string
		timeout time.Duration
	)

	cmd := &cobra.Command{
		Use:   "wait KIND NAME --for condition=TYPE|state=STATE|create|delete",
		Short: "Wait for an object",
		Long: "Waits until the object has a condition (condition=Converged, condition=Converged=False), a state (state=running), is\n" +
			"there (create), or gone (delete). An object that does not exist yet is waited for.",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeKindName,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := objectNamed(args)
			if err != nil {
				return err
			}

			if goal == "" {
				return usageError("say what to wait for: --for condition=TYPE, state=STATE, create or delete")
			}

			wanted, err := client.ParseGoal(kind.Name, name, goal)
			if err != nil {
				return usageError("--for: %w", err)
			}

			ctx, stop := interruptible(cmd)
			defer stop()

			c, err := a.clientSoon(ctx, timeout)
			if err != nil {
				return err
			}

			return a.await(ctx, c, []client.Goal{wanted}, timeout)
		},
	}

	cmd.Flags().StringVar(&goal, "for", "", "condition=TYPE, state=STATE, create or delete")
	timeoutFlag(cmd, &timeout)

	return cmd
}

// startup is how long a gateway that was just started may take until its socket is there.
const startup = 5 * time.Second

// clientSoon returns the client of a gateway that may be starting: it is looked for until then, or until the timeout.
func (a *app) clientSoon(ctx context.Context, timeout time.Duration) (*client.Client, error) {
	limited, cancel := context.WithTimeout(ctx, min(timeout, startup))
	defer cancel()

	for {
		c, err := a.client(ctx)
		if err == nil {
			// One that was named is there only once it answers.
			if _, err = c.Version(limited); err == nil || limited.Err() != nil {
				return c, nil
			}

			c.Close()
		}

		if !errors.Is(err, client.ErrUnreachable) {
			return nil, err
		}

		select {
		case <-limited.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// await waits for goals. Those that are not reached in time are printed, one a line, and lead to exit code 4.
func (a *app) await(ctx context.Context, c *client.Client, goals []client.Goal, timeout time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	unmet, err := c.Await(limited, goals, a.progress())
	if err != nil {
		return err
	}

	if len(unmet) == 0 {
		return nil
	}

	lines := make([]string, len(unmet))
	for i, u := range unmet {
		lines[i] = fmt.Sprintf("%s: not reached after %s: %s", u.Goal, resources.Duration(timeout), u.Why)
	}

	return &exitError{fmt.Errorf("%s", strings.Join(lines, "\n")), exitNotConverged}
}

// progress prints what is waited for where somebody watches.
func (a *app) progress() func(client.Goal, bool, string) {
	if !isTerminal(a.err) {
		return nil
	}

	return func(g client.Goal, reached bool, why string) {
		if reached {
			fmt.Fprintf(a.err, "%s: done\n", g)
		} else {
			fmt.Fprintf(a.err, "%s: %s\n", g, why)
		}
	}
}
