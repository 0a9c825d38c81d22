// Package libvirt is the driver for real hypervisors, through libvirt's C library, which is opened when the first
// connection is made: a program built with it starts where libvirt is not installed. It is built with the tags
// libvirt_dlopen, libvirt_without_lxc and libvirt_without_qemu, which the Makefile sets; without them Open says so. It
// imports the port, resources and its own definition package; the composition root registers Open.
package libvirt
