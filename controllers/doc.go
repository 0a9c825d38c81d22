// Package controllers is the folder of all controllers: one subpackage each, named after what it writes. Controllers meet
// sources and sinks only in resources. They import hypervisor, store, config and resources; the composition root registers them.
package controllers
