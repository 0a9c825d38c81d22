// Command gateway keeps libvirt hypervisors in their declared state, and is the client of a gateway that runs. Each command is
// a file; what they do is done by the packages gateway (run, graph), config (validate, schema) and api/client (all others).
package main

import "os"

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(newApp().run(os.Args[1:])) }
