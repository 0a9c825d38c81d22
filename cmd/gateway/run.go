package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"gateway"
	"gateway/config"
)

// runFlags are the flags of `gateway run`, above the configuration file and the environment.
type runFlags struct {
	config, dataDir, listen string
	documents               []string
}

func (a *app) runCommand() *cobra.Command {
	var flags runFlags

	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the gateway until SIGINT or SIGTERM; VMs are left as they are",
		Long: "Runs everything in one process until SIGINT or SIGTERM; VMs are left as they are.\n" +
			"SIGHUP reads certificates and the log level again. GATEWAY_… variables are above the file, flags above both.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), flags) },
	}

	cmd.Flags().StringVar(&flags.config, "config", "", "configuration file (YAML)")
	cmd.Flags().StringArrayVar(&flags.documents, "documents", nil, "directory of documents; may be repeated (default ./documents.d)")
	cmd.Flags().StringVar(&flags.dataDir, "data-dir", "", "data directory (default ./gateway-data)")
	cmd.Flags().StringVar(&flags.listen, "listen", "", "address of webhooks, health and metrics (default 127.0.0.1:8080)")

	return cmd
}

// load reads the configuration as it is in force with the flags.
func (f *runFlags) load() (*config.Config, error) {
	cfg, err := config.Load(f.config, os.Environ())
	if err != nil {
		return nil, err
	}

	from := map[string]string{}

	if len(f.documents) > 0 {
		cfg.Documents, from["documents"] = f.documents, "--documents"
	}

	if f.dataDir != "" {
		cfg.DataDir, from["dataDir"] = f.dataDir, "--data-dir"
	}

	if f.listen != "" {
		cfg.HTTP.Listen, from["http.listen"] = f.listen, "--listen"
	}

	if err := cfg.Check(from); err != nil {
		return nil, err
	}

	return cfg, nil
}

// serve runs a gateway until a signal.
func (a *app) serve(ctx context.Context, flags runFlags) error {
	cfg, err := flags.load()
	if err != nil {
		return err
	}

	logger, level, err := newLogger(cfg.Log)
	if err != nil {
		return err
	}

	// The second signal ends the process as signals do, in case the first one hangs.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()

	g, err := gateway.New(cfg, gateway.WithLogger(logger), gateway.WithVersion(version))
	if err != nil {
		return err
	}

	reload := make(chan os.Signal, 1)

	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)

	done := make(chan error, 1)

	go func() { done <- g.Run(ctx) }()

	for {
		select {
		case err := <-done:
			return errors.Join(err, flush(logger))
		case <-ctx.Done():
			stop()

			return errors.Join(<-done, flush(logger))
		case <-reload:
			again(g, flags, level, logger)
		}
	}
}

// reloader is the part of a gateway that SIGHUP is for.
type reloader interface {
	Reload() error
}

// again reads what can change while the gateway runs. What can't be read stays as it is.
func again(g reloader, flags runFlags, level zap.AtomicLevel, logger *zap.Logger) {
	err := g.Reload()

	cfg, loadErr := flags.load()
	if loadErr == nil {
		loadErr = setLevel(level, cfg.Log.Level)
	}

	if err = errors.Join(err, loadErr); err != nil {
		logger.Error("SIGHUP: not everything was read again", zap.Error(err))

		return
	}

	logger.Info("SIGHUP: certificates and log level were read again", zap.Stringer("level", level))
}

// setLevel sets the level that a configuration names.
func setLevel(level zap.AtomicLevel, text string) error {
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("log.level: %w", err)
	}

	return nil
}
