// Package intake holds what all sources share: the metrics of events taken in and refused (registered once), the pacing of
// bursts, the journal entry of an event, and dropping an own output. Only sources and the composition root import it.
package intake
