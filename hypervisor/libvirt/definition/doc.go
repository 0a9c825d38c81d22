// Package definition translates between what the gateway owns of a hypervisor's objects and libvirt's XML: domains,
// networks, volumes, pools, and the mark that says whose they are. All XML goes through libvirtxml or encoding/xml, never
// through strings. It talks to no hypervisor and needs no cgo; only the libvirt driver calls it.
package definition
