package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"gateway/api"
	"gateway/api/client"
	"gateway/resources"
)

// Outputs of `gateway get`.
const (
	outputTable = "table"
	outputWide  = "wide"
	outputJSON  = "json"
	outputYAML  = "yaml"
	outputName  = "name"
)

// getFlags are the flags of `gateway get`.
type getFlags struct {
	kind                   *resources.Kind
	name, selector, output string
	watch                  bool
}

func (a *app) getCommand() *cobra.Command {
	var flags getFlags

	choices := []string{outputTable, outputWide, outputJSON, outputYAML, outputName}

	cmd := &cobra.Command{
		Use:               "get KIND [NAME] [-l SELECTOR] [-o table|wide|json|yaml|name] [--watch]",
		Short:             "List or follow objects",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: a.completeKindName,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := checkOutput(flags.output, choices...); err != nil {
				return err
			}

			if flags.kind, flags.name, err = objectNamed(args); err != nil {
				return err
			}

			if flags.name != "" && flags.selector != "" {
				return usageError("give either a name or a selector, not both")
			}

			if err := checkSelector(flags.selector); err != nil {
				return err
			}

			ctx, stop := interruptible(cmd)
			defer stop()

			c, err := a.client(ctx)
			if err != nil {
				return err
			}

			if flags.watch {
				return a.watch(ctx, c, flags)
			}

			return a.get(ctx, c, flags)
		},
	}

	selectorFlag(cmd, &flags.selector)
	outputFlag(cmd, &flags.output, choices...)
	cmd.Flags().BoolVarP(&flags.watch, "watch", "w", false, "go on with each change")

	return cmd
}

func selectorFlag(cmd *cobra.Command, selector *string) {
	cmd.Flags().StringVarP(selector, "selector", "l", "", "labels that objects must have: KEY=VALUE,…; {} is all")
}

// checkSelector finds a selector that does not parse before a gateway is asked for.
func checkSelector(text string) error {
	if text == "" {
		return nil
	}

	if _, err := api.ParseSelector(text); err != nil {
		return usageError("-l: %w", err)
	}

	return nil
}

// get prints one object, or a list.
func (a *app) get(ctx context.Context, c *client.Client, flags getFlags) error {
	if flags.name != "" {
		object, err := c.Get(ctx, flags.kind.Name, flags.name)
		if err != nil {
			return err
		}

		return a.printObjects(flags, object, []client.Object{object})
	}

	list, err := c.List(ctx, flags.kind.Name, flags.selector)
	if err != nil {
		return err
	}

	if list.Items == nil {
		list.Items = []client.Object{}
	}

	if err := a.printObjects(flags, list, list.Items); err != nil {
		return err
	}

	if flags.kind.Name == "FileStatus" && (flags.output == outputTable || flags.output == outputWide) {
		return a.aboutRoots(ctx, c)
	}

	return nil
}

// printObjects prints objects; whole is what JSON and YAML show.
func (a *app) printObjects(flags getFlags, whole any, objects []client.Object) error {
	switch flags.output {
	case outputJSON:
		return writeJSON(a.out, whole)
	case outputYAML:
		return writeYAML(a.out, whole)
	case outputName:
		for _, o := range objects {
			fmt.Fprintln(a.out, o.Kind+"/"+o.Metadata.Name)
		}

		return nil
	}

	if len(objects) == 0 {
		fmt.Fprintln(a.err, "no "+plural(flags.kind))

		return nil
	}

	columns := columnsOf(flags.kind, flags.output == outputWide)
	rows := make([][]string, len(objects))

	for i := range objects {
		row, err := columns.row(&objects[i])
		if err != nil {
			return err
		}

		rows[i] = row
	}

	// Objects come sorted by their name, which of some kinds is a number that nobody reads, and the first column something else.
	slices.SortStableFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	newTable(a.out, columns.header...).print(rows...)

	return nil
}

// plural is what several objects of a kind are called: VMs, files.
func plural(kind *resources.Kind) string {
	if kind.Name == "FileStatus" {
		return "files"
	}

	return kind.Plural
}
