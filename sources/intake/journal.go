package intake

import (
	"encoding/json"
	"fmt"

	"gateway/resources"
	"gateway/store"
)

// Record appends the event to the journal. A nil journal records nothing.
func Record(journal store.Journal, attributes *resources.EventAttributes, object, message string) error {
	if journal == nil {
		return nil
	}

	encoded, err := json.Marshal(attributes)
	if err != nil {
		return fmt.Errorf("error encoding the attributes of event %s: %w", attributes.ID, err)
	}

	err = journal.Append(store.Entry{
		Time: attributes.Received, Class: store.ClassEvent, Source: attributes.Source, Name: attributes.Name,
		EventID: attributes.ID, Object: object, Message: message, Attributes: encoded,
	})
	if err != nil {
		return fmt.Errorf("error recording event %s: %w", attributes.ID, err)
	}

	return nil
}
