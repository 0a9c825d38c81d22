package main

import "github.com/spf13/cobra"

// addBridgeCommands adds the commands about events: what became of them, and doing it again.
func (a *app) addBridgeCommands(root *cobra.Command) {
	root.AddCommand(a.testCommand())
}
