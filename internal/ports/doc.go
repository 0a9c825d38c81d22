// Package ports finds out who listens on a TCP port, for errors that say so. It imports nothing of the gateway; broker and api
// use it.
package ports
