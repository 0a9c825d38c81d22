// Package payload decodes what senders send, whatever the way in: strict JSON and CloudEvents 1.0. Sources import it.
package payload
