// Package adoption makes the documents that take over domains which exist already: of what a hypervisor says of them, and
// of what is declared. It asks and changes nothing itself. It imports config, resources and the types of the hypervisor
// port; the operation of `gateway import` in api calls it.
package adoption
