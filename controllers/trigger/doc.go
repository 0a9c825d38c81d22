// Package trigger holds the controller that looks at every event with every Trigger of its source, and writes an Action for
// each thing that a firing trigger asks for. It decides; `documents` and the sinks act. It may import resources, store and
// controllers/chain; the composition root registers it.
package trigger
