package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"gateway/api/client"
	"gateway/store"
)

const (
	// eventsShown is how many of the newest events are listed.
	eventsShown = 1000
	// eventsBurst is how many may arrive between two requests of --follow without one being left out.
	eventsBurst = 100_000
	followWait  = 30 * time.Second
)

// eventClasses are the entries of the journal that are about events from outside.
var eventClasses = []store.Class{store.ClassEvent, store.ClassRefused, store.ClassDead}

// eventSources are what --source takes.
var eventSources = []string{"file", "schedule", "webhook", "subscription", "domain"}

func (a *app) eventsCommand() *cobra.Command {
	var (
		source, output string
		follow         bool
	)

	choices := []string{outputTable, outputJSON, outputYAML}

	cmd := &cobra.Command{
		Use:   "events [--source SOURCE] [--follow] [-o table|json|yaml]",
		Short: "List or follow the events that arrived, newest last",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output, choices...); err != nil {
				return err
			}

			if source != "" && !slices.Contains(eventSources, source) {
				return usageError("--source: %q is not known: use one of %s", source, strings.Join(eventSources, ", "))
			}

			ctx, stop := interruptible(cmd)
			defer stop()

			c, err := a.client(ctx)
			if err != nil {
				return err
			}

			query := store.Query{Classes: eventClasses, Source: source, Limit: eventsShown}
			if follow {
				return a.followEvents(ctx, c, query, output)
			}

			entries, err := c.Journal(ctx, query, 0)
			if err != nil {
				return err
			}

			return a.printEvents(output, entries)
		},
	}

	cmd.Flags().StringVar(&source, "source", "", "file, schedule, webhook, subscription or domain")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with each event that arrives")
	outputFlag(cmd, &output, choices...)

	return cmd
}

// event is an entry of the journal as JSON and YAML show it: readable, where store.Entry has bytes.
type event struct {
	Number     uint64          `json:"number"`
	Time       time.Time       `json:"time"`
	Class      store.Class     `json:"class"`
	Source     string          `json:"source"`
	Name       string          `json:"name,omitempty"`
	EventID    string          `json:"eventId,omitempty"`
	Object     string          `json:"object,omitempty"`
	Peer       string          `json:"peer,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Message    string          `json:"message,omitempty"`
	Attributes json.RawMessage `json:"attributes,omitempty"`
	// Data is JSON where it is JSON, text where it is text, otherwise base64 in DataBase64.
	Data       any    `json:"data,omitempty"`
	DataBase64 []byte `json:"dataBase64,omitempty"`
}

func eventOf(e *store.Entry) event {
	shown := event{
		Number: e.Number, Time: e.Time, Class: e.Class, Source: e.Source, Name: e.Name, EventID: e.EventID,
		Object: e.Object, Peer: e.Peer, Reason: e.Reason, Message: e.Message,
	}

	if json.Valid(e.Attributes) {
		shown.Attributes = e.Attributes
	}

	switch {
	case len(e.Data) == 0:
	case json.Valid(e.Data):
		shown.Data = json.RawMessage(e.Data)
	case utf8.Valid(e.Data):
		shown.Data = string(e.Data)
	default:
		shown.DataBase64 = e.Data
	}

	return shown
}

// printEvents prints events that there are.
func (a *app) printEvents(output string, entries []store.Entry) error {
	if output == outputTable {
		if len(entries) == 0 {
			fmt.Fprintln(a.err, "no events")

			return nil
		}

		eventTable(a).print(eventRows(entries)...)

		return nil
	}

	list := struct {
		Items []event `json:"items"`
	}{make([]event, len(entries))}

	for i := range entries {
		list.Items[i] = eventOf(&entries[i])
	}

	if output == outputYAML {
		return writeYAML(a.out, list)
	}

	return writeJSON(a.out, list)
}

func eventTable(a *app) *table {
	t := newTable(a.out, "TIME", "SOURCE", "NAME", "ID", "RESULT", "OBJECT")
	t.least = []int{19, 12, 12, 32, 12}

	return t
}

func eventRows(entries []store.Entry) [][]string {
	rows := make([][]string, len(entries))

	for i, e := range entries {
		result := "taken in"
		if e.Class != store.ClassEvent {
			result = string(e.Class)
		}

		for _, more := range []string{e.Reason, e.Message} {
			if more != "" {
				result += ": " + more
			}
		}

		rows[i] = []string{e.Time.Local().Format("2006-01-02 15:04:05"), e.Source, e.Name, e.EventID, result, e.Object}
	}

	return rows
}

// followEvents prints events that there are, and then each that arrives.
func (a *app) followEvents(ctx context.Context, c *client.Client, query store.Query, output string) error {
	shown := eventTable(a)

	for wait := time.Duration(0); ; wait, query.Limit = followWait, eventsBurst {
		entries, err := c.Journal(ctx, query, wait)
		if ctx.Err() != nil {
			return nil
		}

		if err != nil {
			return err
		}

		if err := a.printFollowed(shown, output, entries); err != nil {
			return err
		}

		if len(entries) > 0 {
			query.After = entries[len(entries)-1].Number
		}
	}
}

// printFollowed prints one step of a followed list: rows, JSON on one line each, YAML documents.
func (a *app) printFollowed(shown *table, output string, entries []store.Entry) error {
	if output == outputTable {
		shown.print(eventRows(entries)...)

		return nil
	}

	for i := range entries {
		event := eventOf(&entries[i])

		if output == outputYAML {
			if _, err := fmt.Fprintln(a.out, "---"); err != nil {
				return err
			}

			if err := writeYAML(a.out, event); err != nil {
				return err
			}

			continue
		}

		line, err := lineJSON(event)
		if err != nil {
			return err
		}

		if _, err := a.out.Write(line); err != nil {
			return err
		}
	}

	return nil
}
