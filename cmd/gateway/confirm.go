package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"gateway/api/client"
)

func (a *app) confirmCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "confirm ROOT",
		Short: "Let the mass deletion of a documents directory proceed",
		Long: "A directory from which so many objects went at once that nothing was removed waits for this. It holds for exactly the\n" +
			"objects that were missing: `gateway get deletionguards -o yaml` lists them.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := filepath.Abs(args[0])
			if err != nil {
				return fmt.Errorf("error finding %s: %w", args[0], err)
			}

			return a.command(cmd, func(ctx context.Context, c *client.Client) (string, error) {
				guard, err := c.Confirm(ctx, root)

				return fmt.Sprintf("%d of %d objects of %s are being deleted", guard.Count, guard.Total, root), err
			})
		},
	}
}
