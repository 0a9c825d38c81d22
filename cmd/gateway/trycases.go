package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"gateway/controllers/trigger/cases"
)

func (a *app) testCommand() *cobra.Command {
	var path, output string

	choices := []string{outputTable, outputJSON, outputYAML}

	cmd := &cobra.Command{
		Use:   "test -f FILE",
		Short: "Try triggers out on recorded events, offline",
		Long: "Lets the triggers of some documents look at the events of a file of cases, and compares which of them fire, and what they ask\n" +
			"for, with what the file expects. It needs no gateway. config/examples/test/cases.yaml shows the format.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return usageError("name a file of cases with -f FILE")
			}

			if err := checkOutput(output, choices...); err != nil {
				return err
			}

			return a.tryCases(cmd.Context(), path, output)
		},
	}

	cmd.Flags().StringVarP(&path, "file", "f", "", "file of cases")
	outputFlag(cmd, &output, choices...)

	return cmd
}

func (a *app) tryCases(ctx context.Context, path, output string) error {
	file, triggers, err := cases.Load(path)
	if err != nil {
		return err
	}

	results, err := cases.Run(ctx, file, triggers)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}

	failed := 0

	for _, r := range results {
		if len(r.Differences) > 0 {
			failed++
		}
	}

	list := struct {
		Items []cases.Result `json:"items"`
	}{results}

	switch output {
	case outputJSON:
		err = writeJSON(a.out, list)
	case outputYAML:
		err = writeYAML(a.out, list)
	default:
		a.printCases(path, results)
	}

	if err == nil && failed > 0 {
		err = fmt.Errorf("%s: %d of %d cases came out otherwise than expected", path, failed, len(results))
	}

	return err
}

// printCases prints a line for each case, and below those that came out otherwise how.
func (a *app) printCases(path string, results []cases.Result) {
	for _, r := range results {
		if len(r.Differences) == 0 {
			fmt.Fprintf(a.out, "ok    %s\n", cell(r.Name))

			continue
		}

		fmt.Fprintf(a.out, "FAIL  %s (%s:%d)\n", cell(r.Name), path, r.Line)

		for _, line := range r.Differences {
			fmt.Fprintf(a.out, "      %s%s\n", line[:2], cell(line[2:])) // the mark and its blank
		}
	}
}
