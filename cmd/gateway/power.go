package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gateway/api/client"
	"gateway/resources"
)

// powerCommands are the commands about whether a VM runs.
func (a *app) powerCommands() []*cobra.Command {
	const above = "\nThe document stays as it is: this stands above it until the document changes there, or `gateway declared`."

	declared := &cobra.Command{
		Use: "declared VM", Short: "End an override: the VM is again as it is declared",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.command(cmd, func(ctx context.Context, c *client.Client) (string, error) {
				return "VM/" + args[0] + " is as it is declared", c.Declared(ctx, args[0])
			})
		},
	}
	restart := &cobra.Command{
		Use: "restart VM", Short: "Stop and start a VM once",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.command(cmd, func(ctx context.Context, c *client.Client) (string, error) {
				return "VM/" + args[0] + " restarts", c.Restart(ctx, args[0])
			})
		},
	}

	commands := []*cobra.Command{
		a.powerCommand("start", "Start a VM"+above, resources.PowerRunning),
		a.powerCommand("stop", "Stop a VM"+above, resources.PowerStopped),
		a.powerCommand("pause", "Pause a VM"+above, resources.PowerPaused),
		a.powerCommand("resume", "Let a paused VM run"+above, resources.PowerRunning),
		declared, restart,
	}

	for _, cmd := range commands {
		cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), a.completeVM
	}

	return commands
}

// powerCommand asks for a power state.
func (a *app) powerCommand(name, about, power string) *cobra.Command {
	var duration time.Duration

	short, _, _ := strings.Cut(about, "\n")
	cmd := &cobra.Command{
		Use: name + " VM [--for DURATION]", Short: short, Long: about,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case duration < 0:
				return usageError("--for: %s is negative", duration)
			case duration == 0 && cmd.Flags().Changed("for"):
				return usageError("--for: 0 is no time: leave it out for as long as nothing else is said")
			}

			message := fmt.Sprintf("VM/%s is to be %s", args[0], power)
			if duration > 0 {
				message += " for " + resources.Duration(duration).String()
			}

			return a.command(cmd, func(ctx context.Context, c *client.Client) (string, error) {
				return message, c.Power(ctx, args[0], power, duration)
			})
		},
	}

	cmd.Flags().DurationVar(&duration, "for", 0, "end it after this time, as 2h")

	return cmd
}

// command sends one command to the gateway and prints what is so now.
func (a *app) command(cmd *cobra.Command, do func(context.Context, *client.Client) (string, error)) error {
	ctx, stop := interruptible(cmd)
	defer stop()

	c, err := a.client(ctx)
	if err != nil {
		return err
	}

	message, err := do(ctx, c)
	if err != nil {
		return err
	}

	fmt.Fprintln(a.out, message)

	return nil
}
