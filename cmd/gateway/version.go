package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"
)

// quick bounds what is only asked for where it is there at once.
const quick = time.Second

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, and of the gateway where one runs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintf(a.out, "client: %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)

			ctx, cancel := context.WithTimeout(cmd.Context(), quick)
			defer cancel()

			c, err := a.client(ctx)
			if err != nil {
				return a.serverUnknown(err)
			}

			v, err := c.Version(ctx)
			if err != nil {
				return a.serverUnknown(err)
			}

			fmt.Fprintf(a.out, "gateway: %s (id %s)\n", v.Version, v.ID)

			return nil
		},
	}
}

// serverUnknown fails only where a server was named.
func (a *app) serverUnknown(err error) error {
	if a.server != "" {
		return err
	}

	return nil
}
