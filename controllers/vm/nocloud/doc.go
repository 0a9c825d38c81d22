// Package nocloud makes the seed that cloud-init reads as its data source NoCloud: an ISO 9660 image with the label cidata. It
// imports nothing of the gateway; the vm controller calls it.
package nocloud
