package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Sizes of the simulated installation: small, so that objects meet.
const (
	hostCount = 3
	vmCount   = 8 // in files
	ciCount   = 3 // by the webhook
	apiCount  = 2 // by the API
	msgCount  = 2 // by messages on NATS
	fileCount = 4
	smallHost = 3 // CPUs of the last host
)

// object is a document as JSON has it.
type object = map[string]any

func document(kind, name string, labels object, spec object) object {
	metadata := object{"name": name}
	if labels != nil {
		metadata["labels"] = labels
	}

	return object{"apiVersion": "gateway/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
}

// encode makes one file of documents.
func encode(documents []object) []byte {
	var b strings.Builder

	for _, d := range documents {
		text, err := json.Marshal(d)
		if err != nil {
			panic(err)
		}

		b.WriteString("---\n")
		b.Write(text)
		b.WriteString("\n")
	}

	return []byte(b.String())
}

func hostName(i int) string { return fmt.Sprintf("h%d", i) }
func hostURI(i int) string  { return fmt.Sprintf("sim://h%d?boot=2s", i) }
func vmName(i int) string   { return fmt.Sprintf("vm-%d", i) }
func ciName(i int) string   { return fmt.Sprintf("ci-%d", i) }
func apiName(i int) string  { return fmt.Sprintf("api-%d", i) }
func msgName(i int) string  { return fmt.Sprintf("msg-%d", i) }

// deliveredNames are the VMs that come by the webhook and by the API.
func deliveredNames() (names []string) {
	for i := range ciCount {
		names = append(names, ciName(i))
	}

	for i := range apiCount {
		names = append(names, apiName(i))
	}

	return names
}

// Names of the subscriptions: one declares VMs, and a trigger looks at the other.
const (
	declaring  = "declaring"
	signalling = "signalling"
	opsPrefix  = "ops."
)

// alert is what triggers publish.
var alert = object{"subject": "out.${event.name}", "data": object{"event": "${event.id}"}}

// infrastructure is what does not change but for its hosts' drain.
func infrastructure(drained int, spare bool, image int) []object {
	all := []object{
		document("Network", "lan", nil, object{"mode": "nat", "subnet": "10.7.0.0/24"}),
		document("Network", "lab", nil, object{"mode": "isolated", "subnet": "10.8.0.0/28"}),
		document("Network", "office", nil, object{"mode": "bridge", "bridge": "br0"}),
		document("Image", imageName, nil, object{"source": imageURL(image), "sha256": imageDigest(image)}),
		document("Webhook", "inbox", nil, object{
			"auth": object{"none": true}, "apply": object{"path": "", "kinds": []string{"VM"}, "names": "ci-*", "delete": true},
		}),
		document("Webhook", "look", nil, object{
			"auth": object{"none": true}, "target": object{"kind": "VM", "selector": object{"tier": "web"}},
		}),
		document("Schedule", "tick", nil, object{"cron": "@every 45s", "target": object{"kind": "VM", "selector": object{}}}),
		document("Trigger", "on-look", nil, object{
			"on": object{"source": "webhook", "name": "look"},
			"do": []object{{"sync": object{"kind": "VM", "selector": object{"tier": "db"}}}, {"publish": alert}},
		}),
		document("Subscription", declaring, nil, object{
			"subject": opsPrefix + "vm.>", "stream": opsStream, "deliver": "all", "content": "json", "maxDeliver": 3, "ackWait": "10s",
			"apply": object{"path": "", "kinds": []string{"VM"}, "names": "msg-*", "delete": true},
		}),
		document("Subscription", signalling, nil, object{
			"subject": opsPrefix + "signal", "stream": opsStream, "deliver": "all", "target": object{"kind": "VM", "selector": object{"tier": "app"}},
		}),
		document("Trigger", "on-signal", nil, object{
			"on": object{"source": "subscription", "name": signalling}, "do": []object{{"publish": alert}},
		}),
	}

	for i := range hostCount {
		spec := object{"uri": hostURI(i), "drain": i == drained}
		if i == hostCount-1 {
			spec["capacity"] = object{"cpus": smallHost}
			spec["overcommit"] = object{"cpus": 1.0, "memory": 1.0, "disk": 1.0}
		}

		all = append(all, document("Host", hostName(i), object{"rack": fmt.Sprintf("r%d", i%2)}, spec))
	}

	if spare {
		all = append(all, document("Host", "spare", nil, object{"uri": "sim://spare", "schedulable": false}))
	}

	return all
}

// removesDisks reports whether the disks of a VM go with it. It is fixed for each name, so that what stays is known.
func removesDisks(name string) bool { return strings.ContainsAny(name[len(name)-1:], "0246") }

// hasDisks reports whether a VM has disks at all, and so never moves.
func hasDisks(name string) bool { return strings.ContainsAny(name[len(name)-1:], "0145") }

// randomVM makes a VM's document. The description is unique: it tells which of its versions is in force.
func randomVM(r *rand.Rand, name string, version int) object {
	pick := func(values ...string) string { return values[r.IntN(len(values))] }

	spec := object{
		"description": fmt.Sprintf("version %d", version),
		"power":       pick("running", "running", "running", "running", "stopped", "paused"),
		"cpus":        1 + r.IntN(2),
		"memory":      pick("256MiB", "512MiB"),
		"shutdown":    object{"grace": pick("2s", "10s", "30s")},
	}

	if hasDisks(name) {
		onDelete := "keep"
		if removesDisks(name) {
			onDelete = "remove"
		}

		disks := []object{{"name": "root", "size": "10GiB", "onDelete": onDelete}}
		if fromImage(name) {
			disks[0]["image"] = imageName
		}

		if strings.HasSuffix(name, "0") {
			disks = append(disks, object{"name": "data", "size": "1GiB", "onDelete": onDelete})
		}

		spec["disks"] = disks
	}

	var nics []object
	for range r.IntN(3) {
		nics = append(nics, object{"network": pick("lan", "lan", "lab", "office")})
	}

	// Some declare addresses that others may have.
	if len(nics) == 1 && nics[0]["network"] == "lan" && r.IntN(4) == 0 {
		nics[0]["address"] = fmt.Sprintf("10.7.0.%d", 50+r.IntN(3))
	}

	if nics != nil {
		spec["interfaces"] = nics
	}

	switch r.IntN(6) {
	case 0, 1:
		spec["placement"] = object{"host": hostName(r.IntN(hostCount))}
	case 2:
		spec["placement"] = object{"selector": object{"rack": pick("r0", "r1")}}
	case 3:
		spec["placement"] = object{"apart": object{"tier": "db"}}
	case 4:
		spec["placement"] = object{"spread": "rack"}
	}

	if r.IntN(4) == 0 {
		spec["onGuestShutdown"] = "stay-off"
	}

	return document("VM", name, object{"tier": pick("web", "db", "app")}, spec)
}

func nameOf(d object) string { return d["metadata"].(object)["name"].(string) }

func descriptionOf(d object) string { return d["spec"].(object)["description"].(string) }
