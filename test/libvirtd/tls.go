package libvirtd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// TLSURI is where QEMU is reached over TLS from inside the daemon's network, with the certificates of ClientCertificates.
func (d *Daemon) TLSURI(pki string) string {
	return "qemu+tls://127.0.0.1/system?pkipath=" + pki
}

// authority makes certificates.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	text []byte
}

// configureTLS writes the daemon's certificates, and says that it listens.
func (d *Daemon) configureTLS() (string, error) {
	a := &authority{}

	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return "", err
	}

	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}

	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		return "", err
	}

	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return "", err
	}

	a.text = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	d.authority = a

	dir := filepath.Join(d.root, "etc", "pki")
	if err := a.issue(dir, "server", x509.ExtKeyUsageServerAuth); err != nil {
		return "", err
	}

	return `listen_tls = 1
listen_tcp = 0
listen_addr = "127.0.0.1"
auth_tls = "none"
key_file = "/etc/libvirt/pki/serverkey.pem"
cert_file = "/etc/libvirt/pki/servercert.pem"
ca_file = "/etc/libvirt/pki/cacert.pem"
`, nil
}

// ClientCertificates writes what a client needs that the daemon trusts.
func (d *Daemon) ClientCertificates(dir string) error {
	return d.authority.issue(dir, "client", x509.ExtKeyUsageClientAuth)
}

// issue writes a certificate, its key and the authority's certificate, under the names that libvirt looks for.
func (a *authority) issue(dir, name string, usage x509.ExtKeyUsage) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}

	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}

	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return err
	}

	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}

	for file, text := range map[string][]byte{
		"cacert.pem":      a.text,
		name + "cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		name + "key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), text, 0o600); err != nil {
			return fmt.Errorf("error writing %s: %w", file, err)
		}
	}

	return nil
}
