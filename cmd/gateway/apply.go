package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gateway/api/client"
	"gateway/config"
	"gateway/resources"
)

// defaultTimeout is how long commands that wait do so.
const defaultTimeout = 10 * time.Minute

// applyFlags are the flags of `gateway apply`.
type applyFlags struct {
	files        []string
	wait, dryRun bool
	exitCode     bool
	output       string
	timeout      time.Duration
}

func (a *app) applyCommand() *cobra.Command {
	var flags applyFlags

	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR|- [--wait]",
		Short: "Declare the objects of documents",
		Long:  "Sends documents to the gateway, which declares their objects. All of them are checked before the first one is sent.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()

			if !flags.dryRun && (cmd.Flags().Changed("output") || flags.exitCode) {
				return usageError("-o and --exit-code are for --dry-run")
			}

			if flags.dryRun {
				return a.diff(ctx, diffFlags{files: flags.files, output: flags.output, exitCode: flags.exitCode, api: true})
			}

			return a.apply(ctx, flags)
		},
	}

	fileFlag(cmd, &flags.files)
	cmd.Flags().BoolVar(&flags.wait, "wait", false, "return when every object is in force")
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "show what would change, as gateway diff does, and change nothing")
	cmd.Flags().BoolVar(&flags.exitCode, "exit-code", false, "with --dry-run: exit with 1 when something would change")
	outputFlag(cmd, &flags.output, "text", "json")
	cmd.MarkFlagsMutuallyExclusive("wait", "dry-run")
	timeoutFlag(cmd, &flags.timeout)

	return cmd
}

func timeoutFlag(cmd *cobra.Command, timeout *time.Duration) {
	*timeout = defaultTimeout
	cmd.Flags().Var((*patience)(timeout), "timeout", "how long to wait")
}

func (a *app) apply(ctx context.Context, flags applyFlags) error {
	sources, faults, err := a.readSources(flags.files, config.Decode)
	if err != nil {
		return err
	}

	if len(faults) > 0 {
		return faults
	}

	c, err := a.client(ctx)
	if err != nil {
		return err
	}

	var (
		goals  []client.Goal
		failed bool
	)

	for _, s := range sources {
		objects, err := c.Apply(ctx, s.name, s.data, false)
		if err != nil {
			return err
		}

		for _, object := range objects {
			if !a.report(s.name, object) {
				failed = true

				continue
			}

			if goal, ok := client.Converged(object.Kind, object.Name, object.Revision); ok {
				goals = append(goals, goal)
			}
		}
	}

	if flags.wait && len(goals) > 0 {
		if err := a.await(ctx, c, goals, flags.timeout); err != nil {
			return err
		}
	}

	if failed {
		return errSilent
	}

	return nil
}

// report prints what became of one document, and reports whether it was taken.
func (a *app) report(file string, object resources.AppliedObject) bool {
	name := object.Kind + "/" + object.Name

	switch object.Outcome {
	case resources.OutcomeRefused, resources.OutcomeConflict:
		fmt.Fprintf(a.err, "gateway: %s:%d: %s: %s\n", file, object.Line, name, object.Message)

		return false
	}

	fmt.Fprintln(a.out, name+" "+object.Outcome)

	return true
}
