package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gateway/api"
	"gateway/api/client"
	"gateway/store"
)

func (a *app) storeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "store check|backup|restore",
		Short: "Examine, copy and restore what the gateway keeps",
		Long: "What the gateway keeps is in its data directory: what was declared, where each VM is, which events came in. A backup is one file; it is\n" +
			"taken while the gateway runs, or from the directory of one that does not. The embedded NATS server's files are not in it:\n" +
			"statuses are published again.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	cmd.AddCommand(a.storeCheckCommand(), a.storeBackupCommand(), a.storeRestoreCommand())

	return cmd
}

// dataFlags name a data directory: as those of `gateway run` do.
func (f *runFlags) dataFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "data directory (default: that of the configuration, ./gateway-data)")
	cmd.Flags().StringVar(&f.config, "config", "", "configuration file of the gateway (YAML)")

	// They fail only for a flag that does not exist.
	_ = cmd.MarkFlagDirname("data-dir")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
}

// directory is the data directory that the flags, the configuration or the environment name.
func (f *runFlags) directory() (string, error) {
	cfg, err := f.load()
	if err != nil {
		return "", err
	}

	return cfg.DataDir, nil
}

func (a *app) storeBackupCommand() *cobra.Command {
	var flags runFlags

	cmd := &cobra.Command{
		Use:   "backup FILE|-",
		Short: "Write a consistent copy of the store to a file",
		Long: "Everything that was acknowledged before the command is in the file, which is readable by its owner only and has a checksum. A gateway that\n" +
			"runs on the data directory, or that --server or GATEWAY_SERVER names, is asked for it and works on meanwhile; otherwise the files\n" +
			"are read, and nothing of them is changed. - is the standard output.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()

			to := args[0]
			if to != "-" {
				return a.backUp(ctx, &flags, to)
			}

			return a.backUpToOutput(ctx, &flags)
		},
	}

	flags.dataFlags(cmd)

	return cmd
}

// backUpToOutput takes the backup to a file first: the gateway does not wait for who reads the output.
func (a *app) backUpToOutput(ctx context.Context, flags *runFlags) (err error) {
	if isTerminal(a.out) {
		return usageError("a backup is not for a terminal: name a file, or redirect the output")
	}

	dir, err := os.MkdirTemp("", "gateway-backup")
	if err != nil {
		return fmt.Errorf("error making a directory for the backup: %w", err)
	}

	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	path := filepath.Join(dir, "backup")
	if err := a.backUp(ctx, flags, path); err != nil {
		return err
	}

	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("error reading the backup: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read

	if _, err := io.Copy(a.out, f); err != nil {
		return fmt.Errorf("error writing the backup: %w", err)
	}

	return nil
}

// backUp takes a backup to a file, from the gateway that runs or from its files, and says which.
func (a *app) backUp(ctx context.Context, flags *runFlags, to string) error {
	c, dir, err := a.storeOf(ctx, flags)
	if err != nil {
		return err
	}

	if c != nil {
		defer c.Close()

		if err := store.WriteBackup(to, func(w io.Writer) error { return c.Backup(ctx, w) }); err != nil {
			return err
		}

		fmt.Fprintf(a.err, "gateway: backup of the gateway on %s\n", c.Socket())

		return nil
	}

	if err := store.BackupOffline(ctx, dir, to); err != nil {
		return err
	}

	fmt.Fprintf(a.err, "gateway: backup of %s, on which no gateway runs\n", dir)

	return nil
}

// storeOf finds the gateway whose store is meant, or the data directory on which none runs.
func (a *app) storeOf(ctx context.Context, flags *runFlags) (*client.Client, string, error) {
	named := flags.dataDir != "" || flags.config != ""
	if !named && (a.server != "" || os.Getenv("GATEWAY_SERVER") != "") {
		c, err := a.client(ctx)

		return c, "", err
	}

	dir, err := flags.directory()
	if err != nil {
		return nil, "", err
	}

	holder := store.Holder(dir)

	switch {
	case errors.Is(holder, store.ErrInUse):
		c, err := runningOn(ctx, dir)
		if err != nil {
			return nil, "", errors.Join(holder, err)
		}

		return c, dir, nil
	case holder != nil && !named: // there is no directory here: perhaps a service
		if c, _, err := client.Find(ctx, client.DefaultSockets); err == nil {
			return c, "", nil
		}
	}

	return nil, dir, holder
}

// runningOn returns the client of the gateway that has a data directory.
func runningOn(ctx context.Context, dir string) (*client.Client, error) {
	c, _, err := client.Find(ctx, append([]string{filepath.Join(dir, api.SocketName)}, client.DefaultSockets...))
	if err != nil {
		return nil, err
	}

	version, err := c.Version(ctx)
	if err != nil {
		return nil, err
	}

	if id := store.DirectoryID(dir); id != version.ID {
		return nil, fmt.Errorf("the gateway on %s is %q, and %s belongs to %q: name its socket with --server", c.Socket(), version.ID, dir, id)
	}

	return c, nil
}
