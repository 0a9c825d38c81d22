package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"gateway/api/client"
	"gateway/config"
	"gateway/resources"
)

// page is a description that is being written.
type page struct{ text strings.Builder }

// labelWidth aligns the values behind labels.
const labelWidth = 14

// line writes a label with its value; nothing where the value is empty.
func (p *page) line(label, format string, args ...any) {
	if value := strings.TrimSpace(fmt.Sprintf(format, args...)); value != "" {
		fmt.Fprintf(&p.text, "%-*s%s\n", labelWidth, label+":", cell(value))
	}
}

// section begins a part of several lines.
func (p *page) section(title string) { fmt.Fprintf(&p.text, "\n%s:\n", title) }

// item writes a line of a section.
func (p *page) item(format string, args ...any) {
	fmt.Fprintf(&p.text, "  %s\n", cell(fmt.Sprintf(format, args...)))
}

// rows writes a table as a section.
func (p *page) rows(title string, header []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}

	var text strings.Builder

	newTable(&text, header...).print(rows...)
	p.section(title)

	for line := range strings.Lines(text.String()) {
		p.text.WriteString("  " + line)
	}
}

// yaml writes a JSON text as YAML.
func (p *page) yaml(title string, text json.RawMessage) error {
	if len(text) == 0 || string(text) == "{}" {
		return nil
	}

	document, err := config.YAML(text)
	if err != nil {
		return fmt.Errorf("error writing YAML: %w", err)
	}

	p.section(title)

	for line := range strings.Lines(string(document)) {
		p.text.WriteString("  " + line)
	}

	return nil
}

// identity writes who the object is.
func (p *page) identity(d *client.Description) {
	md := d.Object.Metadata

	p.line("Name", "%s", md.Name)
	p.line("Kind", "%s", d.Object.Kind)
	p.line("Labels", "%s", pairs(md.Labels))
	p.line("Annotations", "%s", pairs(md.Annotations))
	p.line("UID", "%s", md.UID)
	p.line("Revision", "%s", number(md.Revision))
	p.line("Declared by", "%s", md.Origin)

	if !md.Created.IsZero() {
		p.line("Created", "%s", moment(md.Created))
	}
}

// specification writes what is declared, and of kinds that nobody declares what was observed.
func (p *page) specification(d *client.Description) error {
	if len(d.Object.Spec) == 0 {
		return p.yaml("Status", d.Object.Status)
	}

	return p.yaml("Spec", d.Object.Spec)
}

// history writes the newest entries of the journal.
func (p *page) history(d *client.Description) {
	rows := make([][]string, len(d.Events))

	for i, e := range d.Events {
		what := e.Name
		if e.Reason != "" {
			what = strings.TrimSpace(what + " " + e.Reason)
		}

		rows[i] = []string{e.Time.Local().Format("2006-01-02 15:04:05"), string(e.Class), e.Source, what, e.Message, e.Peer}
	}

	p.rows("History", []string{"TIME", "CLASS", "SOURCE", "WHAT", "MESSAGE", "BY"}, rows)
}

// moment is a time with how long ago it was.
func moment(t time.Time) string {
	return t.Local().Format("2006-01-02 15:04:05") + " (" + ago(t, time.Now()) + ")"
}

// pairs are labels as KEY=VALUE.
func pairs(labels map[string]string) string {
	var all []string
	for _, key := range resources.SortedKeys(labels) {
		all = append(all, key+"="+labels[key])
	}

	return strings.Join(all, ", ")
}
