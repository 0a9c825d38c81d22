// Package resources declares every COSI resource type of the gateway: one file a kind, with its specification, its
// constructor, its definition and its deep copy. A resource has no behaviour beyond its own validation. The package
// imports nothing of the gateway but its own leaf packages (cronexpr, expression); everything else may import it.
package resources
