// Package retention holds the controller that takes away what has served: message-like events and actions that everybody has
// handled, requests to look again, overrides whose time is over or whose document changed, and holds of VMs that are gone. It
// may import resources and controllers/chain; the composition root registers it.
package retention
