// Package client speaks to a running gateway through the operators' socket: it finds the gateway, reads, follows and changes
// objects, and waits for them. It imports api for the messages and resources for their contents; cmd/gateway calls it, and
// other programs may.
package client
