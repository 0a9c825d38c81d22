// Command bench measures the gateway and prints one table: each row beside its limit, which is measured in the same run,
// since the machine is never the same twice. What is measured runs in child processes of its own, so that memory and CPU
// are those of one thing. It compares with RESULTS.md, the table that was committed last; `make bench` runs it. Each row
// is a file row_*.go.
//
//	go run -tags libvirt_dlopen,libvirt_without_lxc,libvirt_without_qemu ./bench [-only documents,latency] [-quick] [-write]
package main
