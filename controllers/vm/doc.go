// Package vm drives each VM's domain toward what was declared: it defines, starts, pauses, stops and undefines, and writes
// VMStatus and the Tombstone of what is gone. It is the last link of the chain VMConfig → VMPlacement → NetworkConfig →
// VMStatus, and the first to let go. It imports the hypervisor port, resources, the store's interfaces and chain; the
// composition root builds it.
package vm
