package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cosi-project/runtime/pkg/controller"
	"github.com/spf13/cobra"

	"gateway"
	"gateway/resources"
)

// Outputs of `gateway graph`.
const (
	outputText = "text"
	outputDot  = "dot"
)

func (a *app) graphCommand() *cobra.Command {
	var output string

	cmd := &cobra.Command{
		Use:   "graph [-o text|dot]",
		Short: "Print which sources and controllers read and write which resources",
		Long:  "Prints which sources and controllers read and write which resources: as text, or for Graphviz (gateway graph -o dot | dot -Tsvg).",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := checkOutput(output, outputText, outputDot); err != nil {
				return err
			}

			graph, err := gateway.Graph()
			if err != nil {
				return err
			}

			edges := edgesOf(graph)
			if output == outputDot {
				printDot(a.out, edges)
			} else {
				printEdges(a.out, edges)
			}

			return nil
		},
	}

	outputFlag(cmd, &output, outputText, outputDot)

	return cmd
}

// edge is one use of a kind by a controller.
type edge struct {
	controller, kind, role string
	writes                 bool
}

// roles are the ways in which controllers use resources.
var roles = map[controller.DependencyEdgeType]edge{
	controller.EdgeOutputExclusive:          {role: "alone", writes: true},
	controller.EdgeOutputShared:             {role: "shared", writes: true},
	controller.EdgeInputStrong:              {role: "strong"},
	controller.EdgeInputWeak:                {role: "weak"},
	controller.EdgeInputDestroyReady:        {role: "destroy ready"},
	controller.EdgeInputQPrimary:            {role: "primary"},
	controller.EdgeInputQMapped:             {role: "mapped"},
	controller.EdgeInputQMappedDestroyReady: {role: "mapped, destroy ready"},
}

// edgesOf returns the edges of a graph with the names that users know, sorted.
func edgesOf(graph *controller.DependencyGraph) []edge {
	edges := make([]edge, 0, len(graph.Edges))

	for _, e := range graph.Edges {
		one := roles[e.EdgeType]
		one.controller, one.kind = e.ControllerName, e.ResourceType

		if kind, ok := resources.KindByType(e.ResourceType); ok {
			one.kind = kind.Name
		}

		edges = append(edges, one)
	}

	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(strings.Compare(a.controller, b.controller), cmp.Compare(btoi(a.writes), btoi(b.writes)),
			strings.Compare(a.role, b.role), strings.Compare(a.kind, b.kind))
	})

	return slices.Compact(edges)
}

func btoi(b bool) int {
	if b {
		return 1
	}

	return 0
}

func printEdges(out io.Writer, edges []edge) {
	last := ""

	for _, e := range edges {
		if e.controller != last {
			last = e.controller

			fmt.Fprintln(out, e.controller)
		}

		verb := "reads"
		if e.writes {
			verb = "writes"
		}

		fmt.Fprintf(out, "  %-6s %s (%s)\n", verb, e.kind, e.role)
	}
}

func printDot(out io.Writer, edges []edge) {
	fmt.Fprintln(out, "digraph gateway {\n  rankdir=LR;\n  node [shape=box];")

	for _, e := range edges {
		fmt.Fprintf(out, "  %q [style=filled, fillcolor=lightgrey];\n", e.controller)
	}

	for _, e := range edges {
		from, to := e.kind, e.controller
		if e.writes {
			from, to = to, from
		}

		fmt.Fprintf(out, "  %q -> %q [label=%q];\n", from, to, e.role)
	}

	fmt.Fprintln(out, "}")
}
