package config

import "gateway/resources"

// Config is the process configuration. Every field has a default; Default returns them.
type Config struct {
	// ID marks what is ours on hypervisors; empty: generated once in DataDir.
	ID        string             `json:"id,omitempty"`
	DataDir   string             `json:"dataDir" default:"./gateway-data"`
	Documents []string           `json:"documents"`
	Resync    resources.Duration `json:"resync" default:"5m"`
	Deletions Deletions          `json:"deletions"`
	Policy    Policy             `json:"policy"`
	HTTP      HTTP               `json:"http"`
	NATS      NATS               `json:"nats"`
	Store     StoreConfig        `json:"store"`
	Log       Log                `json:"log"`
}

// Deletions is the guard against mass deletion: a scan that would remove more than both removes nothing and waits for
// `gateway confirm`.
type Deletions struct {
	// Max is a share of a root's objects.
	Max Percent `json:"max" default:"25%"`
	// Free is a number of objects that may always go.
	Free int `json:"free" default:"10"`
}

// IsMass reports whether the removal of n of a root's objects, of which there are total, waits for a confirmation: it would leave none,
// or is more than what is free and more than the largest share.
func (d Deletions) IsMass(n, total int) bool {
	return n > 0 && (n == total || n > d.Free && float64(n) > d.Max.Of(total))
}

// Policy bounds what documents and senders may name. No document widens it.
type Policy struct {
	HostURIs    []string `json:"hostURIs"`
	Paths       []string `json:"paths"`
	SecretPaths []string `json:"secretPaths"`
	ImageURLs   []string `json:"imageURLs"`

	// NATSPrefix is nats.prefix, set by Default and Load: subjects below it are the gateway's own. Empty: gateway.
	NATSPrefix string `json:"-"`
}

// HTTP is the listener of webhooks, health and metrics.
type HTTP struct {
	Listen string   `json:"listen" default:"127.0.0.1:8080"`
	Hosts  []string `json:"hosts,omitempty"`
	TLS    HTTPTLS  `json:"tls,omitzero"`
}

// HTTPTLS names PEM files. They are read again on SIGHUP and when they change.
type HTTPTLS struct {
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
	// ClientCA accepts client certificates that it signed; needed for webhooks with mtls.
	ClientCA string `json:"clientCA,omitempty"`
}

// NATS is the embedded server, or the URL of another one.
type NATS struct {
	Embedded EmbeddedNATS `json:"embedded"`
	// URL of an external server; empty: the embedded one runs.
	URL         string  `json:"url,omitempty"`
	Credentials string  `json:"credentials,omitempty"`
	NKey        string  `json:"nkey,omitempty"`
	TokenFile   string  `json:"tokenFile,omitempty"`
	TLS         NATSTLS `json:"tls,omitzero"`
	Prefix      string  `json:"prefix" default:"gateway"`
}

// EmbeddedNATS is the NATS server inside the gateway.
type EmbeddedNATS struct {
	Listen    string `json:"listen" default:"127.0.0.1:4222"`
	TokenFile string `json:"tokenFile,omitempty"`
}

// NATSTLS names PEM files for the connection to an external server.
type NATSTLS struct {
	CA          string `json:"ca,omitempty"`
	Certificate string `json:"certificate,omitempty"`
	Key         string `json:"key,omitempty"`
}

// StoreConfig chooses the engine of the state.
type StoreConfig struct {
	Engine string `json:"engine" default:"bolt" enum:"bolt,memory"`
}

// Log is how the gateway logs.
type Log struct {
	Level  string `json:"level" default:"info" enum:"debug,info,warn,error"`
	Format string `json:"format" default:"json" enum:"json,console"`
}

// Default returns the configuration that an empty file means.
func Default() *Config {
	c := &Config{
		Documents: []string{"./documents.d"},
		Policy: Policy{
			HostURIs:    []string{"qemu:///system", "qemu:///session", "qemu+unix", "qemu+ssh", "qemu+tls", "test", "test+unix", "sim"},
			Paths:       []string{"/var/lib/libvirt/images", "/var/lib/gateway/images"},
			SecretPaths: []string{"/etc/gateway/secrets"},
			ImageURLs:   []string{"https"},
		},
	}
	resources.SetDefaults(c)
	c.Policy.NATSPrefix = c.NATS.Prefix

	return c
}
