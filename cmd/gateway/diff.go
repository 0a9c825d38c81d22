package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gateway/api"
	"gateway/config"
)

// diffFlags are the flags of `gateway diff`.
type diffFlags struct {
	files    []string
	root     string
	output   string
	exitCode bool
	// api compares what `gateway apply` would declare.
	api bool
}

func (a *app) diffCommand() *cobra.Command {
	var flags diffFlags

	cmd := &cobra.Command{
		Use:   "diff -f FILE|DIR|- [--root DIR] [--exit-code]",
		Short: "Show what documents would change, and change nothing",
		Long: "Shows, object by object and field by field, what documents would change on the hypervisors: what is in force without a\n" +
			"restart (live), what needs one, what is refused and why, what would be created and deleted. A directory is compared with\n" +
			"what the same documents directory declares: what is missing in it would be deleted. With --root documents that are\n" +
			"elsewhere, as in a checkout, are compared as if they were there.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()

			return a.diff(ctx, flags)
		},
	}

	fileFlag(cmd, &flags.files)
	cmd.Flags().StringVar(&flags.root, "root", "", "the documents directory, or one below it, that the documents stand for")
	cmd.Flags().BoolVar(&flags.exitCode, "exit-code", false, "exit with 1 when something would change")
	outputFlag(cmd, &flags.output, "text", "json")

	return cmd
}

func (a *app) diff(ctx context.Context, flags diffFlags) error {
	if err := checkOutput(flags.output, "text", "json"); err != nil {
		return err
	}

	request, err := a.diffRequest(flags)
	if err != nil {
		return err
	}

	c, err := a.client(ctx)
	if err != nil {
		return err
	}

	diff, err := c.Diff(ctx, request)
	if err != nil {
		return err
	}

	if flags.output == "json" {
		err = writeJSON(a.out, diff)
	} else {
		err = a.writeDiff(&diff)
	}

	if err != nil {
		return err
	}

	if n := countActions(&diff); n[api.DiffRefused] > 0 || flags.exitCode && n[api.DiffCreate]+n[api.DiffChange]+n[api.DiffDelete] > 0 {
		return errSilent
	}

	return nil
}

// diffRequest reads the documents. Their names are absolute, so that the gateway knows which of its own they are.
func (a *app) diffRequest(flags diffFlags) (api.DiffRequest, error) {
	request := api.DiffRequest{API: flags.api}

	sources, faults, err := a.readSources(flags.files, config.Decode)
	if err != nil {
		return request, err
	}

	if len(faults) > 0 {
		return request, faults
	}

	for _, s := range sources {
		name, err := absolute(s.name)
		if err != nil {
			return request, err
		}

		request.Files = append(request.Files, api.DiffFile{Name: name, Data: string(s.data)})
	}

	for _, file := range flags.files {
		if file == "-" {
			continue
		}

		under, err := absolute(file)
		if err != nil {
			return request, err
		}

		request.Under = append(request.Under, under)
	}

	if flags.root != "" {
		request.Root, err = absolute(flags.root)
	}

	return request, err
}

func absolute(name string) (string, error) {
	if name == "-" {
		return name, nil
	}

	path, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("error finding %s: %w", name, err)
	}

	return path, nil
}

func countActions(diff *api.Diff) map[string]int {
	n := map[string]int{}
	for i := range diff.Objects {
		n[diff.Objects[i].Action]++
	}

	return n
}

// signs begin the line of an object.
var signs = map[string]string{api.DiffCreate: "+", api.DiffChange: "~", api.DiffDelete: "-", api.DiffRefused: "!"}

// writeDiff prints what would change; objects that would not are left out.
func (a *app) writeDiff(diff *api.Diff) error {
	var out strings.Builder

	for i := range diff.Objects {
		writeObjectDiff(&out, &diff.Objects[i])
	}

	n := countActions(diff)

	var counts []string

	for _, action := range []struct{ name, words string }{
		{api.DiffCreate, "to create"}, {api.DiffChange, "to change"}, {api.DiffDelete, "to delete"}, {api.DiffRefused, "refused"},
	} {
		if n[action.name] > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n[action.name], action.words))
		}
	}

	if len(counts) == 0 {
		counts = []string{"nothing would change"}
	}

	fmt.Fprintln(&out, strings.Join(counts, ", "))

	for _, note := range diff.Notes {
		fmt.Fprintln(a.err, "gateway: "+note)
	}

	if _, err := io.WriteString(a.out, out.String()); err != nil {
		return fmt.Errorf("error writing the differences: %w", err)
	}

	return nil
}

func writeObjectDiff(out io.Writer, d *api.ObjectDiff) {
	sign, changes := signs[d.Action]
	if !changes && len(d.Notes) == 0 {
		return
	}

	if sign == "" {
		sign = "="
	}

	fmt.Fprintf(out, "%s %s/%s%s%s\n", sign, d.Kind, d.Name, whereabouts(d), place(d))

	if d.Message != "" {
		fmt.Fprintf(out, "    %s: %s\n", d.Reason, d.Message)
	}

	for _, f := range d.Fields {
		effect := f.Effect
		if d.Action == api.DiffCreate {
			effect = ""
		}

		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("    %s: %s  %s", f.Path, change(&f, d.Action), joinedBy(": ", effect, f.Why)), " "))
	}

	for _, step := range d.Steps {
		fmt.Fprintf(out, "    %s\n", step)
	}

	for _, note := range d.Notes {
		fmt.Fprintf(out, "    (%s)\n", note)
	}
}

// whereabouts is where a VM is and how.
func whereabouts(d *api.ObjectDiff) string {
	switch {
	case d.Host == "":
		return ""
	case d.State == "":
		return " on host " + d.Host
	default:
		return fmt.Sprintf(" on host %s (%s)", d.Host, d.State)
	}
}

func place(d *api.ObjectDiff) string {
	switch {
	case d.File == "" || d.File == "-":
		return ""
	case d.Line == 0:
		return "  " + d.File
	default:
		return fmt.Sprintf("  %s:%d", d.File, d.Line)
	}
}

// change is the old and the new value of a field.
func change(f *api.FieldDiff, action string) string {
	switch {
	case f.From == nil && f.To == nil:
		return "differs"
	case action == api.DiffCreate:
		return value(f.To)
	default:
		return value(f.From) + " -> " + value(f.To)
	}
}

func value(v any) string {
	switch v := v.(type) {
	case nil:
		return "(none)"
	case string:
		if v == "" || strings.ContainsAny(v, " \n\t\"") {
			return strconv.Quote(v)
		}

		return v
	default:
		return fmt.Sprint(v)
	}
}
