package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gateway/api"
	"gateway/config"
)

// writeCertificate writes a certificate for 127.0.0.1 with the given name, signed by itself, and its key.
func writeCertificate(t *testing.T, files config.HTTPTLS, name string) {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)

	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)

	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files.Certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), 0o600))
	require.NoError(t, os.WriteFile(files.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// served returns the name of the certificate that a listener shows.
func served(t *testing.T, address string) string {
	t.Helper()

	conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // what is shown is looked at
	require.NoError(t, err)
	require.NoError(t, conn.Close())

	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestCertificatesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	files := config.HTTPTLS{Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	writeCertificate(t, files, "first")

	certificates, err := api.LoadCertificates(files)
	require.NoError(t, err)

	address := serveHTTP(t, api.HTTPOptions{Certificates: certificates})
	require.Equal(t, "first", served(t, address))

	writeCertificate(t, files, "second")
	require.NoError(t, certificates.Reload())
	require.Equal(t, "second", served(t, address))

	require.NoError(t, os.WriteFile(files.Key, []byte("half a"), 0o600))
	require.ErrorContains(t, certificates.Reload(), "http.tls.certificate and http.tls.key")
	require.Equal(t, "second", served(t, address), "what can't be read leaves the old one in force")

	pool := x509.NewCertPool()
	data, err := os.ReadFile(files.Certificate)
	require.NoError(t, err)
	require.True(t, pool.AppendCertsFromPEM(data))

	status, _ := answer(t, &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
	}}, "https://"+address+"/healthz")
	require.Equal(t, http.StatusOK, status)
}

func TestCertificatesThatCanNotBeReadAreNamed(t *testing.T) {
	dir := t.TempDir()
	files := config.HTTPTLS{Certificate: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}

	_, err := api.LoadCertificates(files)
	require.ErrorContains(t, err, files.Certificate)

	writeCertificate(t, files, "a")

	files.ClientCA = files.Key
	_, err = api.LoadCertificates(files)
	require.EqualError(t, err, "http.tls.clientCA: "+files.Key+" has no certificate")
}
