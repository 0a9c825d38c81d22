// Package config is the process configuration of the gateway, and the decoding and validating of documents: the strict
// reader of YAML and JSON that every way in uses, with file, line and column for each fault. It imports resources only.
package config
