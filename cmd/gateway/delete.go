package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gateway/api"
	"gateway/api/client"
)

func (a *app) deleteCommand() *cobra.Command {
	var (
		wait, force bool
		timeout     time.Duration
	)

	cmd := &cobra.Command{
		Use:   "delete KIND NAME [--wait] [--force]",
		Short: "Tear an object down",
		Long: "Tears an object down. One that a file declares is refused: take it out of the file. --force does it all the same; the\n" +
			"object stays away until its file changes.\n\n" +
			"A host or network that VMs use goes when they have gone; until then it can be declared again. With --force, what is on a\n" +
			"host that can't be reached is given up: it is named, left behind there, and its VMs are placed elsewhere or go. Say so only\n" +
			"of a host that is gone for good: the gateway can't see whether its guests still run.",
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeKindName,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, err := kindNamed(args[0])
			if err != nil {
				return err
			}

			ctx, stop := interruptible(cmd)
			defer stop()

			c, err := a.client(ctx)
			if err != nil {
				return err
			}

			var declarer string

			if force {
				if declarer, err = declarerOf(ctx, c, kind.Name, args[1]); err != nil {
					return err
				}
			}

			deleted, err := c.Remove(ctx, kind.Name, args[1], force)
			if err != nil {
				return err
			}

			a.aboutDeletion(kind.Name+"/"+args[1], declarer, force, &deleted)

			if !wait {
				fmt.Fprintf(a.out, "%s/%s is being deleted\n", kind.Name, args[1])

				return nil
			}

			goal, err := client.ParseGoal(kind.Name, args[1], "delete")
			if err != nil {
				return err
			}

			if err := a.await(ctx, c, []client.Goal{goal}, timeout); err != nil {
				return err
			}

			fmt.Fprintf(a.out, "%s/%s deleted\n", kind.Name, args[1])

			return nil
		},
	}

	cmd.Flags().BoolVar(&wait, "wait", false, "return when the object is gone")
	cmd.Flags().BoolVar(&force, "force", false, "also an object that a file declares")
	timeoutFlag(cmd, &timeout)

	return cmd
}

// listed names some of many.
func listed(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}

	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// aboutDeletion says what a deletion gives up, leaves behind and waits for. declarer is who declares the object, where it is
// deleted by force.
func (a *app) aboutDeletion(object, declarer string, force bool, deleted *api.Deleted) {
	for _, lost := range deleted.Lost {
		fmt.Fprintf(a.err, "gateway: %s: given up: %s\n", object, lost)
	}

	for _, kept := range deleted.Kept {
		if force {
			fmt.Fprintf(a.err, "gateway: %s: leaves behind %s\n", object, kept)
		}
	}

	if len(deleted.UsedBy) > 0 {
		fmt.Fprintf(a.err, "gateway: %s: waits until it is no longer used by %s\n", object, listed(deleted.UsedBy))
	}

	if file, ok := strings.CutPrefix(declarer, "file:"); ok {
		fmt.Fprintf(a.err, "gateway: %s: %s still declares it: it comes back when that file changes\n", object, file)
	}
}

// declarerOf is who declares an object.
func declarerOf(ctx context.Context, c *client.Client, kind, name string) (string, error) {
	object, err := c.Get(ctx, kind, name)

	return object.Metadata.Origin, err
}
