package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"gateway/api/client"
)

// needShell has `gateway completion` refuse what is no shell; cobra's own prints its help and succeeds.
func needShell(root *cobra.Command) {
	root.InitDefaultCompletionCmd()

	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return usageError("%q is not a shell that is known: bash, zsh, fish or powershell", args[0])
				}

				return nil
			}
			cmd.RunE = func(*cobra.Command, []string) error { return usageError("name a shell: bash, zsh, fish or powershell") }
		}
	}
}

// completeKindName completes a kind, then the name of one of its objects.
func (a *app) completeKindName(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return kindNames(), cobra.ShellCompDirectiveNoFileComp
	case 1:
		return a.names(cmd.Context(), args[0]), cobra.ShellCompDirectiveNoFileComp
	}

	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completeVM completes the name of a VM.
func (a *app) completeVM(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}

	return a.names(cmd.Context(), "VM"), cobra.ShellCompDirectiveNoFileComp
}

// names asks the gateway for the names of a kind's objects; there are none where it does not answer at once.
func (a *app) names(ctx context.Context, kind string) []string {
	if ctx == nil {
		ctx = context.Background()
	}

	ctx, cancel := context.WithTimeout(ctx, quick)
	defer cancel()

	c, err := a.quietClient(ctx)
	if err != nil {
		return nil
	}

	list, err := c.List(ctx, kind, "")
	if err != nil {
		return nil
	}

	names := make([]string, len(list.Items))
	for i, o := range list.Items {
		names[i] = o.Metadata.Name
	}

	return names
}

// quietClient is client without a word about which gateway it is.
func (a *app) quietClient(ctx context.Context) (*client.Client, error) {
	quiet := *a
	quiet.err = io.Discard

	return quiet.client(ctx)
}
