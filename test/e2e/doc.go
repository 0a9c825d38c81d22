// Package e2e tests the gateway as people have it: the real program, started, stopped and killed as a process; a private
// libvirtd with QEMU (package libvirtd); a nats-server process and the official nats command; real files, HTTP clients and
// virsh. Nothing of the gateway's own packages is used to look at the outcome. What a machine lacks is said by need; with
// GATEWAY_REQUIRE_E2E=1 it is a failure. Only tests are in here.
package e2e
