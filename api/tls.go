package api

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	"gateway/config"
)

// Certificates are the listener's PEM files, read again when they change and on Reload. A new version that can't be read
// leaves the old one in force.
type Certificates struct {
	files config.HTTPTLS

	mu      sync.Mutex // guards the following
	current *tls.Config
	stamp   [3]time.Time
	checked time.Time
}

// certificateCheck is how often files are looked at, at most: at handshakes.
const certificateCheck = 10 * time.Second

// LoadCertificates reads the files; the error names the key and the file.
func LoadCertificates(files config.HTTPTLS) (*Certificates, error) {
	c := &Certificates{files: files}

	return c, c.Reload()
}

// Reload reads the files now.
func (c *Certificates) Reload() error {
	c.mu.Lock()
	defer c.mu.Unlock()

	return c.load()
}

// load is called with the lock held.
func (c *Certificates) load() error {
	c.checked, c.stamp = time.Now(), c.stamps()

	pair, err := tls.LoadX509KeyPair(c.files.Certificate, c.files.Key)
	if err != nil {
		return fmt.Errorf("http.tls.certificate and http.tls.key: %w", err)
	}

	next := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}

	if c.files.ClientCA != "" {
		pem, err := os.ReadFile(c.files.ClientCA)
		if err != nil {
			return fmt.Errorf("http.tls.clientCA: %w", err)
		}

		next.ClientCAs = x509.NewCertPool()
		if !next.ClientCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("http.tls.clientCA: %s has no certificate", c.files.ClientCA)
		}

		// Routes decide who needs one: a webhook with mtls refuses who has none.
		next.ClientAuth = tls.VerifyClientCertIfGiven
	}

	c.current = next

	return nil
}

func (c *Certificates) stamps() (stamps [3]time.Time) {
	for i, path := range []string{c.files.Certificate, c.files.Key, c.files.ClientCA} {
		if info, err := os.Stat(path); err == nil {
			stamps[i] = info.ModTime()
		}
	}

	return stamps
}

// config asks for the current files at each handshake.
func (c *Certificates) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c.mu.Lock()
			defer c.mu.Unlock()

			if time.Since(c.checked) > certificateCheck && c.stamps() != c.stamp {
				if err := c.load(); err != nil && c.current == nil {
					return nil, err
				}
			}

			return c.current, nil
		},
	}
}
