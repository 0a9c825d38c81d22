package store

// ClassPurged marks dead letters that were purged or replayed: those before it of its source, its name and its event; an
// empty name or event stands for all. It is kept as long as what it marks, because the oldest entries of a source go first.
const ClassPurged Class = "purged"

// Purges reports whether e marks the dead letter d as done with.
func (e *Entry) Purges(d *Entry) bool {
	return e.Class == ClassPurged && d.Class == ClassDead && e.Number > d.Number && e.Source == d.Source &&
		(e.Name == "" || e.Name == d.Name) && (e.EventID == "" || e.EventID == d.EventID)
}

// Outstanding returns the dead letters among the entries that no entry among them marks as done with.
func Outstanding(entries []Entry) []Entry {
	var marks, letters []Entry

	for i := range entries {
		if entries[i].Class == ClassPurged {
			marks = append(marks, entries[i])
		}
	}

	for i := range entries {
		if entries[i].Class == ClassDead && !isPurged(&entries[i], marks) {
			letters = append(letters, entries[i])
		}
	}

	return letters
}

func isPurged(letter *Entry, marks []Entry) bool {
	for i := range marks {
		if marks[i].Purges(letter) {
			return true
		}
	}

	return false
}
