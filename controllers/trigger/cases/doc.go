// Package cases tries triggers out on recorded events, offline: `gateway test` runs it. A file of cases names documents with
// triggers, and for each event which of them fire and what they ask for. It imports config to read both, and
// controllers/trigger for the evaluation, which is the controller's own.
package cases
