// Package libvirtd starts private libvirt daemons for tests and benchmarks: each in a network and a mount namespace of its
// own, with nothing of the machine's libvirt in it, as something that can be killed, stopped and started again while its
// domains run on. It also builds a small guest that boots. It needs root and Debian's packages; tests skip themselves,
// with the reason, through Need. Only tests and benchmarks import it.
package libvirtd
