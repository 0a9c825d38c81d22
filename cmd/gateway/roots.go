package main

import (
	"context"
	"fmt"

	"gateway/api/client"
	"gateway/resources"
)

// aboutRoots says below a list of files what no file can show: a directory that can't be read, and a deletion that waits for
// a confirmation.
func (a *app) aboutRoots(ctx context.Context, c *client.Client) error {
	roots, err := c.List(ctx, "FileRoot", "")
	if err != nil {
		return err
	}

	for i := range roots.Items {
		root, err := client.StatusOf[resources.FileRootSpec](&roots.Items[i])
		if err != nil {
			return err
		}

		if !root.Available {
			fmt.Fprintf(a.err, "gateway: %s: %s; what it declared stays\n", root.Path, root.Message)
		}
	}

	guards, err := c.List(ctx, "DeletionGuard", "")
	if err != nil {
		return err
	}

	for i := range guards.Items {
		guard, err := client.StatusOf[resources.DeletionGuardSpec](&guards.Items[i])
		if err != nil {
			return err
		}

		fmt.Fprintf(a.err, "gateway: %s: %s: %d of %d objects would be deleted: `gateway confirm %s` lets it proceed\n",
			guard.Root, resources.ReasonMassDeletion, guard.Count, guard.Total, guard.Root)
	}

	return nil
}
