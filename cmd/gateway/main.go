// Command gateway keeps libvirt hypervisors in their declared state, and is the client of a gateway that runs. Each command is
// a file; what they do is done by the packages gateway (run, graph), config (validate, schema) and api/client (all others).
package main

import (
	"os"
	"runtime/debug"
)

// version is set by the linker. Where it is not, as with a plain `go build`, Go's own stands in for it.
var version = "unknown"

func main() {
	if info, ok := debug.ReadBuildInfo(); ok && version == "unknown" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		version = info.Main.Version
	}

	os.Exit(newApp().run(os.Args[1:]))
}
