package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gateway/config"
)

// outputFlag adds -o with its choices, the first of which is the default.
func outputFlag(cmd *cobra.Command, output *string, choices ...string) {
	cmd.Flags().StringVarP(output, "output", "o", choices[0], strings.Join(choices, ", "))

	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
}

func checkOutput(output string, choices ...string) error {
	if !slices.Contains(choices, output) {
		return usageError("-o %s is not known: use one of %s", output, strings.Join(choices, ", "))
	}

	return nil
}

// writeJSON writes a value indented, characters as they are.
func writeJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("error writing JSON: %w", err)
	}

	return nil
}

// lineJSON is a value as JSON on one line.
func lineJSON(value any) ([]byte, error) {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("error encoding JSON: %w", err)
	}

	return out.Bytes(), nil
}

// writeYAML writes a value with the names and the order of fields of its JSON.
func writeYAML(out io.Writer, value any) error {
	text, err := lineJSON(value)
	if err != nil {
		return err
	}

	document, err := config.YAML(text)
	if err != nil {
		return fmt.Errorf("error writing YAML: %w", err)
	}

	if _, err := out.Write(document); err != nil {
		return fmt.Errorf("error writing YAML: %w", err)
	}

	return nil
}
