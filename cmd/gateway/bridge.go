package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// addBridgeCommands adds the commands about events: what became of them, and doing it again.
func (a *app) addBridgeCommands(root *cobra.Command) {
	root.AddCommand(a.testCommand(), a.deadLettersCommand(), a.whyCommand())

	for _, cmd := range root.Commands() {
		if cmd.Name() == "events" {
			cmd.AddCommand(a.replayCommand())
		}
	}
}

func (a *app) replayCommand() *cobra.Command {
	var output string

	choices := []string{outputTable, outputJSON, outputYAML}

	cmd := &cobra.Command{
		Use:   "replay ID",
		Short: "Process an event again",
		Long: "A webhook's delivery or a message comes in once more, as a new event, with what its declaration says now: the journal keeps\n" +
			"payloads up to 64 KiB for 24 h, and none of those that are applied. Of other events the target looks again.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output, choices...); err != nil {
				return err
			}

			ctx, stop := interruptible(cmd)
			defer stop()

			c, err := a.client(ctx)
			if err != nil {
				return err
			}

			done, err := c.Replay(ctx, args[0])

			switch {
			case err != nil:
				return err
			case output == outputJSON:
				return writeJSON(a.out, done)
			case output == outputYAML:
				return writeYAML(a.out, done)
			case done.As == "":
				fmt.Fprintf(a.out, "%s looks again\n", done.Target)
			default:
				fmt.Fprintf(a.out, "event %s came in again as %s\n", done.ID, done.As)
			}

			return nil
		},
	}

	outputFlag(cmd, &output, choices...)

	return cmd
}
