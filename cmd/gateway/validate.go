package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) validateCommand() *cobra.Command {
	var names []string

	cmd := &cobra.Command{
		Use:   "validate -f FILE|DIR|-",
		Short: "Check documents without a gateway",
		Long:  "Checks documents without a gateway and prints file:line:column: message for each fault. Policy and what is declared\nalready are the gateway's to check: see `gateway diff`.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, faults, err := a.readSources(names)
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

	return cmd
}

// fileFlag adds -f.
func fileFlag(cmd *cobra.Command, names *[]string) {
	cmd.Flags().StringArrayVarP(names, "file", "f", nil, "file or directory of documents, - for standard input; may be repeated")
}
