// Package sources is the folder of all sources: one subpackage each, a COSI controller whose inputs are its declarations and
// whose outputs are event resources, so that a source is reconfigured by dropping a document, without a restart. A source
// never calls a controller: they meet only in resources. Sources import hypervisor, store, config and resources; the
// composition root registers them. Package intake holds what they share.
package sources
