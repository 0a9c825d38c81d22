// Package sim is a simulated hypervisor for tests, benchmarks and demonstrations: hosts sim://NAME in the memory of the
// process, which behave as the port says and fail as they are told to, by a call or from a seed. With ?state=FILE a host
// keeps its domains across restarts. It imports the port and resources; the composition root registers its opener, and
// tests play everybody else who works on the host through World and Host.
package sim
