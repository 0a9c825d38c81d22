package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"gateway/api"
	"gateway/api/client"
)

func (a *app) deadLettersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "deadletters list|show|replay|purge",
		Aliases: []string{"deadletter"},
		Short:   "What could not be processed",
		Long: "Events whose documents were refused, messages that could not be taken, and what triggers asked for in vain: those of the last\n" +
			"24 h from the gateway's journal, older ones (30 days) from their stream on NATS.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}

	cmd.AddCommand(a.lettersListCommand(), a.lettersShowCommand(), a.lettersReplayCommand(), a.lettersPurgeCommand())

	return cmd
}

// chosenFlags adds the flags that choose letters.
func chosenFlags(cmd *cobra.Command, q *api.LettersRequest) {
	cmd.Flags().StringVar(&q.Source, "source", "", "webhook, subscription, trigger, …")
	cmd.Flags().StringVar(&q.Name, "name", "", "name of the webhook, subscription or trigger")
}

func (a *app) lettersListCommand() *cobra.Command {
	var (
		q      api.LettersRequest
		output string
	)

	choices := []string{outputTable, outputJSON, outputYAML}

	cmd := &cobra.Command{
		Use:   "list [--source SOURCE] [--name NAME]",
		Short: "List what could not be processed, newest last",
		Args:  cobra.NoArgs,
		RunE: a.asking(func(ctx context.Context, c *client.Client, _ []string) error {
			if err := checkOutput(output, choices...); err != nil {
				return err
			}

			letters, err := c.DeadLetters(ctx, q.Source, q.Name)
			if err != nil {
				return err
			}

			switch output {
			case outputJSON:
				return writeJSON(a.out, letters)
			case outputYAML:
				return writeYAML(a.out, letters)
			}

			a.printLetters(letters)

			return nil
		}),
	}

	chosenFlags(cmd, &q)
	outputFlag(cmd, &output, choices...)

	return cmd
}

// asking runs a command that asks a gateway.
func (a *app) asking(run func(ctx context.Context, c *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := interruptible(cmd)
		defer stop()

		c, err := a.client(ctx)
		if err != nil {
			return err
		}

		return run(ctx, c, args)
	}
}

func (a *app) printLetters(letters api.DeadLetters) {
	if letters.NATS != "" {
		fmt.Fprintln(a.err, "gateway: letters older than 24 h are not shown: "+letters.NATS)
	}

	if len(letters.Items) == 0 {
		fmt.Fprintln(a.err, "no dead letters")

		return
	}

	rows := make([][]string, len(letters.Items))
	for i, l := range letters.Items {
		rows[i] = []string{l.Time.Local().Format("2006-01-02 15:04:05"), l.Source, l.Name, l.EventID, l.Reason, l.Message, strconv.FormatBool(l.InJournal)}
	}

	newTable(a.out, "TIME", "SOURCE", "NAME", "ID", "REASON", "MESSAGE", "REPLAYABLE").print(rows...)
}

func (a *app) lettersShowCommand() *cobra.Command {
	var output string

	choices := []string{outputTable, outputJSON, outputYAML}

	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show the dead letter of an event",
		Args:  cobra.ExactArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			if err := checkOutput(output, choices...); err != nil {
				return err
			}

			letter, err := c.DeadLetter(ctx, args[0])
			if err != nil {
				return err
			}

			shown := letterShown{DeadLetter: letter}
			shown.setData(letter.Data)

			switch output {
			case outputJSON:
				return writeJSON(a.out, shown)
			case outputYAML:
				return writeYAML(a.out, shown)
			}

			return a.printLetter(&shown)
		}),
	}

	outputFlag(cmd, &output, choices...)

	return cmd
}

// letterShown is a letter with its data readable, as events have it.
type letterShown struct {
	api.DeadLetter

	Data       any    `json:"data,omitempty"`
	DataBase64 []byte `json:"dataBase64,omitempty"`
}

func (l *letterShown) setData(data []byte) {
	switch {
	case len(data) == 0:
	case json.Valid(data):
		l.Data = json.RawMessage(data)
	case utf8.Valid(data):
		l.Data = string(data)
	default:
		l.DataBase64 = data
	}
}

func (a *app) printLetter(l *letterShown) error {
	p := &page{}
	p.line("Event", "%s", l.EventID)
	p.line("Source", "%s %s", l.Source, l.Name)
	p.line("Type", "%s", l.Type)
	p.line("Subject", "%s", l.Subject)
	p.line("From", "%s", l.Peer)
	p.line("Time", "%s", moment(l.Time))
	p.line("Reason", "%s", l.Reason)
	p.line("Message", "%s", l.Message)
	p.line("Object", "%s", l.Object)
	p.line("Data", "%d bytes", l.Bytes)

	if text, ok := l.Data.(json.RawMessage); ok {
		if err := p.yaml("Data", text); err != nil {
			return err
		}
	} else if text, ok := l.Data.(string); ok {
		p.section("Data")

		for line := range strings.Lines(text) {
			p.item("%s", line)
		}
	}

	_, err := fmt.Fprint(a.out, p.text.String())

	return err
}

func (a *app) lettersReplayCommand() *cobra.Command {
	var q api.LettersRequest

	cmd := &cobra.Command{
		Use:   "replay ID | --source SOURCE | --name NAME | --all",
		Short: "Process again what could not be processed",
		Args:  cobra.MaximumNArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			if err := chosen(&q, args); err != nil {
				return err
			}

			done, err := c.Redeliver(ctx, q)
			if err != nil {
				return err
			}

			for _, r := range done.Items {
				if r.As == "" {
					fmt.Fprintf(a.out, "event %s: %s looks again\n", r.ID, r.Target)
				} else {
					fmt.Fprintf(a.out, "event %s came in again as %s\n", r.ID, r.As)
				}
			}

			for _, problem := range done.Errors {
				a.complain(fmt.Errorf("%s", problem))
			}

			if len(done.Errors) > 0 {
				return errSilent
			}

			return nil
		}),
	}

	chosenFlags(cmd, &q)
	cmd.Flags().BoolVar(&q.All, "all", false, "all that the journal has")

	return cmd
}

func (a *app) lettersPurgeCommand() *cobra.Command {
	var q api.LettersRequest

	cmd := &cobra.Command{
		Use:   "purge ID | --source SOURCE | --name NAME | --all",
		Short: "Forget what could not be processed",
		Long:  "Takes dead letters out of the list and out of their stream on NATS. The journal keeps what happened until it is 24 h old.",
		Args:  cobra.MaximumNArgs(1),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			if err := chosen(&q, args); err != nil {
				return err
			}

			done, err := c.Purge(ctx, q)
			if err != nil {
				return err
			}

			fmt.Fprintf(a.out, "%d purged, %d of them from NATS\n", done.Letters, done.Published)

			if done.NATS != "" {
				fmt.Fprintln(a.err, "gateway: they stay in their stream on NATS: "+done.NATS)
			}

			return nil
		}),
	}

	chosenFlags(cmd, &q)
	cmd.Flags().BoolVar(&q.All, "all", false, "all there are")

	return cmd
}

// chosen completes what flags chose with the argument.
func chosen(q *api.LettersRequest, args []string) error {
	if len(args) == 1 {
		q.ID = args[0]
	}

	if *q == (api.LettersRequest{}) {
		return usageError("name an event, --source, --name or --all")
	}

	if q.ID != "" && (q.All || q.Source != "" || q.Name != "") {
		return usageError("name either an event or others by flags")
	}

	return nil
}
