package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gateway/api"
	"gateway/api/client"
	"gateway/controllers/trigger"
	"gateway/resources"
	"gateway/store"
)

func (a *app) whyCommand() *cobra.Command {
	var output string

	choices := []string{outputTable, outputJSON, outputYAML}

	cmd := &cobra.Command{
		Use:   "why KIND NAME | event ID",
		Short: "Tell what led to an object as it is, or what an event led to",
		Long: "Tells the causes of an object, each with what came of it: the event or the command, which triggers looked at it and why they\n" +
			"fired or not, the revisions, what was changed on the hypervisor, and the statuses that were published. Of a command, too, the\n" +
			"id that other outputs call the cause can be asked for: gateway why event api-….",
		Args: cobra.ExactArgs(2),
		RunE: a.asking(func(ctx context.Context, c *client.Client, args []string) error {
			if err := checkOutput(output, choices...); err != nil {
				return err
			}

			story, err := why(ctx, c, args[0], args[1])
			if err != nil {
				return err
			}

			switch output {
			case outputJSON:
				return writeJSON(a.out, story)
			case outputYAML:
				return writeYAML(a.out, story)
			}

			_, err = fmt.Fprint(a.out, tell(story))

			return err
		}),
	}

	outputFlag(cmd, &output, choices...)

	return cmd
}

func why(ctx context.Context, c *client.Client, kindName, name string) (api.Story, error) {
	if strings.EqualFold(kindName, "event") {
		return c.WhyEvent(ctx, name)
	}

	kind, err := kindNamed(kindName)
	if err != nil {
		return api.Story{}, err
	}

	return c.Why(ctx, kind.Name, name)
}

// tell writes a story for people.
func tell(story api.Story) string {
	var out strings.Builder

	if story.Now != nil {
		fmt.Fprintln(&out, present(story.About, story.Now))
	}

	for i, chain := range story.Chains {
		if i > 0 || story.Now != nil {
			out.WriteByte('\n')
		}

		fmt.Fprintln(&out, heading(&chain, story.Now != nil && isIdle(&chain)))

		for j := range chain.Steps {
			step := &chain.Steps[j]
			fmt.Fprintf(&out, "  %s  %s\n", step.Time.Local().Format("15:04:05.000"), cell(sentence(step)))
		}

		if story.Now == nil && i == len(story.Chains)-1 && isIdle(&chain) {
			fmt.Fprintln(&out, "  nothing was changed because of it: all was as declared, or it concerned nobody")
		}
	}

	if len(story.Chains) == 0 {
		fmt.Fprintln(&out, "The journal, which keeps 24 h, has nothing of what led to it.")
	}

	if story.NATS != "" {
		fmt.Fprintln(&out, "\nWhat was published is not known: "+cell(story.NATS))
	}

	return out.String()
}

// present says how an object is.
func present(about string, now *api.Now) string {
	if now.Deleted {
		return about + " is not there any more."
	}

	text := about + " is at revision " + fmt.Sprint(now.Revision)
	if now.State != "" {
		text = about + " is " + now.State
		if now.Host != "" {
			text += " on " + now.Host
		}

		text += ", at revision " + fmt.Sprint(now.Revision)
	}

	if now.Origin != "" {
		text += ", declared by " + now.Origin
	}

	text += "."

	for _, c := range now.Conditions {
		if c.Status != resources.ConditionTrue || c.Type == resources.ConditionConverged {
			text += fmt.Sprintf("\n  %s is %s since %s", c.Type, c.Status, c.Since.Local().Format("2006-01-02 15:04:05"))

			if why := client.Explain(&c); why != c.Type {
				text += ": " + cell(why)
			}
		}
	}

	return text
}

// heading says what a chain began with. One that changed nothing of an object is no reason for it.
func heading(chain *api.Chain, idle bool) string {
	day := ""
	if len(chain.Steps) > 0 {
		day = " (" + chain.Steps[0].Time.Local().Format(time.DateOnly) + ")"
	}

	switch {
	case idle && chain.Known:
		return fmt.Sprintf("Nothing was changed by %s%s:", chain.Cause, day)
	case chain.Before != "":
		return fmt.Sprintf("Because of event %s, a replay of %s%s:", chain.Cause, chain.Before, day)
	case chain.Known && strings.HasPrefix(chain.Cause, string(resources.OriginAPI)+"-"), chain.Known && strings.HasPrefix(chain.Cause, string(resources.OriginRequest)+"-"):
		return fmt.Sprintf("Because of command %s%s:", chain.Cause, day)
	case chain.Known:
		return fmt.Sprintf("Because of event %s%s:", chain.Cause, day)
	case chain.Cause == "resync":
		return "Because it was looked at again, without an event that is known" + day + ":"
	}

	return fmt.Sprintf("Because of %s, of which the journal has no more than this%s:", chain.Cause, day)
}

// isIdle reports whether nothing came of a chain.
func isIdle(chain *api.Chain) bool {
	for i := range chain.Steps {
		switch store.Class(chain.Steps[i].Step) {
		case store.ClassRevision, store.ClassHypervisor, store.ClassPublished, store.ClassForced, store.ClassDead, store.ClassRefused:
			return false
		}
	}

	return true
}

// sentence tells one step.
func sentence(s *api.Step) string {
	who := strings.TrimSuffix(s.Source+" "+s.Name, " ")

	switch store.Class(s.Step) {
	case store.ClassEvent:
		return joinedBy(" ", "came in through "+who, from(s.Peer), colon(s.Message), about(s.Object))
	case store.ClassRefused:
		return joinedBy(" ", "was refused by "+who, from(s.Peer), colon(joinedBy(": ", s.Reason, s.Message)))
	case store.ClassCommand:
		return joinedBy(" ", s.Name+" "+s.Object, "was asked for by", orElse(s.Peer, s.Source))
	case store.ClassTrigger:
		return triggerSentence(s)
	case store.ClassRevision:
		return joinedBy(" ", s.Object, "was "+orElse(s.Reason, "changed")+" by "+who, colon(s.Message))
	case store.ClassHypervisor:
		return joinedBy(" ", fmt.Sprintf("the %s controller changed host %s for %s: %s", s.Source, s.Name, s.Object, s.Message), bracketed(s.Reason))
	case store.ClassPublished:
		if s.Source == "status" {
			return fmt.Sprintf("its status was published on %s: %s", s.Name, s.Message)
		}

		return "a message was published on " + s.Object + " for " + s.Name
	case store.ClassDead:
		return joinedBy(" ", "could not be processed by "+who, colon(joinedBy(": ", s.Object, s.Reason, s.Message)))
	case store.ClassForced:
		return joinedBy(" ", s.Object, "was deleted by force by "+who, colon(s.Message))
	case store.ClassPurged:
		return joinedBy(" ", "its dead letter was "+strings.ToLower(orElse(s.Reason, "purged")), "by", s.Peer)
	}

	return joinedBy(" ", s.Step, who, s.Object, s.Reason, s.Message)
}

func triggerSentence(s *api.Step) string {
	switch s.Reason {
	case trigger.ReasonFired:
		return "trigger " + s.Name + " fired: " + s.Message
	case trigger.ReasonNotFired:
		return "trigger " + s.Name + " did not fire: " + s.Message
	}

	return "trigger " + s.Name + " did not fire, " + s.Reason + ": " + s.Message
}

func joinedBy(separator string, parts ...string) string {
	given := parts[:0:0]

	for _, part := range parts {
		if part != "" {
			given = append(given, part)
		}
	}

	return strings.ReplaceAll(strings.Join(given, separator), " : ", ": ")
}

func from(peer string) string {
	if peer == "" {
		return ""
	}

	return "from " + peer
}

func colon(text string) string {
	if text == "" {
		return ""
	}

	return ": " + text
}

func bracketed(text string) string {
	if text == "" {
		return ""
	}

	return "(" + text + ")"
}

func about(object string) string {
	if object == "" {
		return ""
	}

	return "→ " + object
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}

	return text
}
