package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"gateway/store"
)

func (a *app) storeRestoreCommand() *cobra.Command {
	var (
		flags runFlags
		force bool
	)

	cmd := &cobra.Command{
		Use:   "restore FILE|-",
		Short: "Make a data directory of a backup",
		Long: "The gateway must not run. Nothing is changed before the backup was found to be whole; files of a store that are there are refused, or, with\n" +
			"--force, kept aside in the directory. What was acknowledged after the backup is not in it. The gateway that starts then looks for\n" +
			"each VM on every host before it does anything with it, and does not touch what it finds as it should be.",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			dir, err := flags.directory()
			if err != nil {
				return err
			}

			from := a.in

			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("error opening the backup: %w", err)
				}
				defer f.Close() //nolint:errcheck // it was only read

				from = f
			}

			return a.restore(dir, from, force)
		},
	}

	flags.dataFlags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "keep the files that are there aside")

	return cmd
}

func (a *app) restore(dir string, from io.Reader, force bool) error {
	done, err := store.Restore(dir, from, force)
	if err != nil {
		return err
	}

	fmt.Fprintf(a.out, "%s is gateway %s as it was at %s\n", dir, done.ID, done.Taken.Local().Format("2006-01-02 15:04:05"))

	if done.Aside != "" {
		fmt.Fprintf(a.out, "what was there is in %s\n", done.Aside)
	}

	return nil
}
