package main

import (
	"strings"

	"github.com/spf13/cobra"

	"gateway/config"
	"gateway/resources"
)

// configSchema, in place of a kind, is the process configuration.
const configSchema = "config"

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [KIND]",
		Short: "Print the JSON Schema of documents",
		Long:  "Prints the JSON Schema (2020-12) of a kind's documents, or of all; of the configuration file with `schema config`.",
		Args:  cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}

			return append(declaredNames(), configSchema), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			schema, err := schemaOf(args)
			if err != nil {
				return err
			}

			_, err = a.out.Write(schema)

			return err
		},
	}
}

// schemaOf returns the schema that the arguments name.
func schemaOf(args []string) ([]byte, error) {
	if len(args) == 0 {
		return config.SchemaAll()
	}

	if args[0] == configSchema {
		return config.SchemaConfig()
	}

	kind, ok := resources.LookupKind(args[0])
	if !ok || kind.Nature != resources.Declared {
		return nil, usageError("%q is not a kind of documents: use one of %s, or %s", args[0], strings.Join(declaredNames(), ", "), configSchema)
	}

	return config.Schema(kind)
}
