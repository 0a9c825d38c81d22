// Package config is the process configuration of the gateway, and the decoding and validating of documents: the strict
// reader of YAML and JSON that every way in uses, with file, line and column for each fault; how objects are shown; merge
// patches; the policy that bounds what documents may name; and the JSON Schemas. It imports resources only. Admission,
// the CLI, the API and the composition root call it.
package config
