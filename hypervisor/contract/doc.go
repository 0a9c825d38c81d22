// Package contract is what every hypervisor driver has to pass: Run tests the port's promises, as a controller relies on
// them, on any driver that a Harness opens. Only tests of drivers import it.
package contract
