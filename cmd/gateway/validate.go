package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"gateway/config"
)

func (a *app) validateCommand() *cobra.Command {
	var (
		names []string
		file  string
	)

	cmd := &cobra.Command{
		Use:   "validate -f FILE|DIR|- [--config FILE]",
		Short: "Check documents without a gateway",
		Long: "Checks documents without a gateway and prints file:line:column: message for each fault. With --config they are held by the\n" +
			"policy of that configuration too. What is declared already is the gateway's to check: see `gateway diff`.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			check := config.Decode

			if file != "" {
				cfg, err := config.Load(file, os.Environ())
				if err != nil {
					return err
				}

				check = func(name string, data []byte) ([]config.Document, error) {
					return config.DecodeAllowed(name, data, cfg.Policy)
				}
			}

			_, faults, err := a.readSources(names, check)
			if err != nil {
				return err
			}

			for _, fault := range faults {
				fmt.Fprintln(a.out, fault.Error())
			}

			if len(faults) > 0 {
				return errSilent
			}

			return nil
		},
	}

	fileFlag(cmd, &names)
	cmd.Flags().StringVar(&file, "config", "", "configuration whose policy the documents are held by")

	return cmd
}

// fileFlag adds -f.
func fileFlag(cmd *cobra.Command, names *[]string) {
	cmd.Flags().StringArrayVarP(names, "file", "f", nil, "file or directory of documents, - for standard input; may be repeated")
}
