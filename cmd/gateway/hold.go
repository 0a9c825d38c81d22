package main

import (
	"context"

	"github.com/spf13/cobra"

	"gateway/api/client"
)

func (a *app) holdCommand() *cobra.Command {
	var reason string

	cmd := &cobra.Command{
		Use:               "hold KIND NAME [--reason TEXT]",
		Short:             "Stop reconciling an object",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeKindName,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindNamed(args[0])
			if err != nil {
				return err
			}

			return a.command(cmd, func(ctx context.Context, c *client.Client) (string, error) {
				return kind.Name + "/" + args[1] + " is held", c.Hold(ctx, kind.Name, args[1], reason)
			})
		},
	}

	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who see it")

	return cmd
}

func (a *app) releaseCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "release KIND NAME",
		Short:             "End a hold: reconcile the object again",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeKindName,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindNamed(args[0])
			if err != nil {
				return err
			}

			return a.command(cmd, func(ctx context.Context, c *client.Client) (string, error) {
				return kind.Name + "/" + args[1] + " is released", c.Release(ctx, kind.Name, args[1])
			})
		},
	}
}
