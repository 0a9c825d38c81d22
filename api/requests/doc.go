// Package requests answers requests on NATS, as a micro service that `nats micro ls` finds: PREFIX.request.apply, get, delete
// and sync, in JSON like the operators' socket. It imports api for the operations and broker for the subjects; the composition
// root runs it while it holds the claim on the prefix. Who asks is a sender and not an operator: what it declares is held by
// policy, can only be VMs, and belongs to the origin `request`.
package requests
