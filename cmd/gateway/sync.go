package main

import (
	"context"

	"github.com/spf13/cobra"

	"gateway/api"
	"gateway/api/client"
	"gateway/resources"
)

func (a *app) syncCommand() *cobra.Command {
	var selector string

	cmd := &cobra.Command{
		Use:               "sync KIND NAME|-l SELECTOR",
		Short:             "Reconcile objects now",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeKindName,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindNamed(args[0])
			if err != nil {
				return err
			}

			target := resources.Target{Kind: kind.Name}

			switch {
			case len(args) > 1 && selector != "":
				return usageError("give either a name or a selector, not both")
			case len(args) > 1:
				target.Name = args[1]
			case selector == "":
				return usageError("give a name or a selector: -l {} is all")
			default:
				if target.Selector, err = api.ParseSelector(selector); err != nil {
					return usageError("-l: %w", err)
				}
			}

			return a.command(cmd, func(ctx context.Context, c *client.Client) (string, error) {
				return target.String() + " is looked at again", c.Sync(ctx, target)
			})
		},
	}

	selectorFlag(cmd, &selector)

	return cmd
}
