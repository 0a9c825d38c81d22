package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gateway/store"
)

func (a *app) storeCheckCommand() *cobra.Command {
	var (
		flags  runFlags
		repair bool
	)

	cmd := &cobra.Command{
		Use:   "check [BACKUP]",
		Short: "Examine a data directory, or a backup",
		Long: "Reads everything: the id, the store file with each object and journal entry in it, the log record by record. Says what is wrong, what was\n" +
			"acknowledged and is lost, and what to do; the exit code is 1 then. Nothing is changed. A gateway that runs on the directory is asked for a\n" +
			"copy, which is examined instead: what it works with is right as long as that is.\n\n" +
			"--repair cuts a damaged log where the damage begins: what stands before it is kept, what stands behind it is given up, and the\n" +
			"log is kept aside. `gateway store restore` is the better way where there is a backup that is newer.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()

			switch {
			case repair && len(args) > 0:
				return usageError("--repair is for a data directory, not for a backup")
			case repair:
				return a.repair(&flags)
			case len(args) > 0:
				return a.printReport(store.CheckBackup(args[0]))
			}

			return a.check(ctx, &flags)
		},
	}

	flags.dataFlags(cmd)
	cmd.Flags().BoolVar(&repair, "repair", false, "cut a damaged log, and give up what stands behind the damage")

	return cmd
}

// check examines a directory, or a copy of what the gateway has that runs on it.
func (a *app) check(ctx context.Context, flags *runFlags) (err error) {
	c, dir, err := a.storeOf(ctx, flags)
	if err != nil {
		return err
	}

	if c == nil {
		return a.printReport(store.Check(dir))
	}
	defer c.Close()

	temporary, err := os.MkdirTemp("", "gateway-check")
	if err != nil {
		return fmt.Errorf("error making a directory for a copy: %w", err)
	}

	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()

	copied := filepath.Join(temporary, "copy of the running gateway's store")
	if err := store.WriteBackup(copied, func(w io.Writer) error { return c.Backup(ctx, w) }); err != nil {
		return err
	}

	fmt.Fprintf(a.err, "gateway: a gateway runs on %s: a copy of its store is examined; its log is, when it is stopped\n", c.Socket())

	return a.printReport(store.CheckBackup(copied))
}

// printReport prints what an examination found.
func (a *app) printReport(r *store.Report, err error) error {
	if err != nil {
		return err
	}

	rows := make([][]string, len(r.Parts))
	for i, p := range r.Parts {
		rows[i] = []string{p.Name, p.State}
	}

	newTable(a.out, "PART", "STATE").print(rows...)

	for _, p := range r.Problems {
		a.complain(errors.New(p.String()))
	}

	if len(r.Problems) > 0 {
		return errSilent
	}

	return nil
}

func (a *app) repair(flags *runFlags) error {
	dir, err := flags.directory()
	if err != nil {
		return err
	}

	done, err := store.Repair(dir)

	switch {
	case err != nil:
		return err
	case done.Damage == "":
		fmt.Fprintln(a.out, "the log is whole; nothing was changed")

		return nil
	}

	fmt.Fprintf(a.out, "cut: %s\n", done.Damage)

	if done.Lost != "" {
		fmt.Fprintf(a.out, "given up: %s\n", done.Lost)
	}

	fmt.Fprintf(a.out, "the log as it was is in %s\n", done.Aside)

	return nil
}
