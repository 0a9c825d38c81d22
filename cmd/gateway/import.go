package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gateway/api"
	"gateway/api/client"
	"gateway/config"
)

func (a *app) importCommand() *cobra.Command {
	var (
		request api.ImportRequest
		output  string
		all     bool
		choices = []string{outputYAML, outputJSON}
	)

	cmd := &cobra.Command{
		Use:   "import VM DOMAIN [--host H] | import --all [--host H] [--from GATEWAY]",
		Short: "Print the documents that adopt existing domains",
		Long: "The documents declare the domains as they are, so that applying them changes nothing but the mark in their metadata:\n" +
			"gateway import --all | gateway apply -f -\n" +
			"What no document can say stays as it is and is named on standard error. With the data directory lost, this is how a gateway\n" +
			"gets its domains back.",
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output, choices...); err != nil {
				return err
			}

			switch {
			case all && len(args) > 0:
				return usageError("give either a VM and a domain, or --all, not both")
			case !all && len(args) != 2:
				return usageError("name the VM and the domain, or give --all")
			case !all && len(request.From) > 0:
				return usageError("--from is for --all: one domain is taken over from whoever has it")
			case !all:
				request.VM, request.Domain = args[0], args[1]
			}

			ctx, stop := interruptible(cmd)
			defer stop()

			c, err := a.client(ctx)
			if err != nil {
				return err
			}

			return a.importDomains(ctx, c, request, output)
		},
	}

	cmd.Flags().StringVar(&request.Host, "host", "", "the host that has them; default: all hosts")
	cmd.Flags().BoolVar(&all, "all", false, "all domains that are not this gateway's")
	cmd.Flags().StringArrayVar(&request.From, "from", nil, "with --all: also the domains of this gateway, which is gone for good")
	outputFlag(cmd, &output, choices...)

	return cmd
}

func (a *app) importDomains(ctx context.Context, c *client.Client, request api.ImportRequest, output string) error {
	imported, err := c.Import(ctx, request)
	if err != nil {
		return err
	}

	if output == outputJSON {
		err = writeJSON(a.out, map[string]any{"items": imported.Items})
	} else {
		err = a.printDocuments(imported.Items)
	}

	if err != nil {
		return err
	}

	for _, r := range imported.Remarks {
		about := fmt.Sprintf("domain %s on host %s", r.Domain, r.Host)
		if r.Object != "" {
			about = r.Object + ": " + about
		}

		fmt.Fprintf(a.err, "gateway: import: %s: %s\n", about, r.Text)
	}

	if len(imported.Unasked) > 0 {
		return fmt.Errorf("import: domains are missing above: %s", strings.Join(imported.Unasked, "; "))
	}

	if len(imported.Items) == 0 {
		fmt.Fprintln(a.err, "gateway: import: there is no domain to adopt")
	}

	return nil
}

// printDocuments prints documents as one file of YAML.
func (a *app) printDocuments(documents []json.RawMessage) error {
	for i, d := range documents {
		text, err := config.YAML(d)
		if err != nil {
			return fmt.Errorf("error writing a document: %w", err)
		}

		if i > 0 {
			fmt.Fprintln(a.out, "---")
		}

		if _, err := a.out.Write(text); err != nil {
			return fmt.Errorf("error writing a document: %w", err)
		}
	}

	return nil
}
