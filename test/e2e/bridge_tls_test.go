package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)

	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}

	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)

	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)

	return &authority{t: t, cert: cert, key: key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue returns a certificate of a server on the loopback address, or of a client, and its key, as PEM.
func (a *authority) issue(name string, serial int64, notAfter time.Time) (cert, key []byte) {
	a.t.Helper()

	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)

	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: notAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}

	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	require.NoError(a.t, err)

	keyDER, err := x509.MarshalECPrivateKey(private)
	require.NoError(a.t, err)

	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
}

// client returns an HTTP client that trusts the authority and has this certificate, if any.
func (a *authority) client(cert, key []byte) *http.Client {
	a.t.Helper()

	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
	config.RootCAs.AddCert(a.cert)

	if cert != nil {
		pair, err := tls.X509KeyPair(cert, key)
		require.NoError(a.t, err)

		// Sent whatever the server says it accepts.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}

	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
}

const (
	certificateFile = "server.pem"
	keyFile         = "server.key"
)

// tlsGateway is a gateway that serves TLS.
type tlsGateway struct {
	*gateway

	ours *authority
	// right is the client that the route builds takes.
	right *http.Client
}

// launch starts the gateway with a configuration of its own.
func (g *tlsGateway) launch() {
	text := fmt.Sprintf("dataDir: %s\ndocuments: [%s]\npolicy: {secretPaths: [%s]}\nnats: {embedded: {listen: 127.0.0.1:0}}\n"+
		"http: {listen: 127.0.0.1:0, tls: {certificate: %s, key: %s, clientCA: %s}}\n",
		g.path("data"), g.documents(), g.path("secrets"), g.path(certificateFile), g.path(keyFile), g.path("ca.pem"))
	require.NoError(g.t, os.WriteFile(g.path("config.yaml"), []byte(text), 0o600))
	g.process = startProcess(g.t, g.dir, binary, "run", "--config", g.path("config.yaml"))
}

// install writes the server's certificate.
func (g *tlsGateway) install(serial int64) {
	cert, key := g.ours.issue("gateway", serial, time.Now().Add(time.Hour))
	require.NoError(g.t, os.WriteFile(g.path(certificateFile), cert, 0o600))
	require.NoError(g.t, os.WriteFile(g.path(keyFile), key, 0o600))
}

// send posts to a route, and returns the status and the serial number of the server's certificate.
func (g *tlsGateway) send(client *http.Client, route string) (int, int64, error) {
	response, err := client.Post("https://"+g.http+"/hooks/"+route, "application/json", strings.NewReader(`{"ref": "main"}`))
	if err != nil {
		return 0, 0, err
	}

	return response.StatusCode, response.TLS.PeerCertificates[0].SerialNumber.Int64(), response.Body.Close()
}

// accepted waits until the right client is taken by a server with this certificate.
func (g *tlsGateway) accepted(t *testing.T, want int64) {
	t.Helper()

	eventually(t, fmt.Sprintf("the right client is accepted, with certificate %d", want), func() error {
		code, serial, err := g.send(g.right, "builds")
		if err == nil && (code != http.StatusAccepted || serial != want) {
			err = fmt.Errorf("%d, serial number %d", code, serial)
		}

		return err
	})
}

// TestBridgeTLS serves webhooks over TLS: a route with mtls takes its own client alone, and a new certificate is served
// after SIGHUP.
func TestBridgeTLS(t *testing.T) {
	ours, theirs, later := newAuthority(t, "ours"), newAuthority(t, "theirs"), time.Now().Add(time.Hour)

	g := &tlsGateway{gateway: newGateway(t, ""), ours: ours, right: ours.client(ours.issue("ci.example", 10, later))}
	g.install(1)
	require.NoError(t, os.WriteFile(g.path("ca.pem"), ours.pem(), 0o600))
	g.write("hooks.yaml", documents(document("Webhook", "builds", "{auth: {mtls: {subjects: [ci.example]}}}"), g.githubHook("deploy", "")))
	g.launch()
	g.listens()
	g.accepted(t, 1)

	for name, test := range map[string]struct {
		client *http.Client
		route  string
		code   int // 0: the handshake fails
	}{
		"a client without a certificate":                        {ours.client(nil, nil), "builds", http.StatusUnauthorized},
		"a client with another name":                            {ours.client(ours.issue("other.example", 11, later)), "builds", http.StatusUnauthorized},
		"a client of another authority":                         {ours.client(theirs.issue("ci.example", 12, later)), "builds", 0},
		"a client whose certificate is over":                    {ours.client(ours.issue("ci.example", 13, time.Now().Add(-time.Hour))), "builds", 0},
		"a client with a certificate, on a route with a secret": {g.right, "deploy", http.StatusUnauthorized},
	} {
		t.Run(name+" is refused", func(t *testing.T) {
			code, _, err := g.send(test.client, test.route)
			require.Equal(t, test.code == 0, err != nil, "%v", err)
			require.Equal(t, test.code, code)
		})
	}

	t.Run("plain HTTP is not spoken", func(t *testing.T) {
		response, err := http.Post("http://"+g.http+"/hooks/builds", "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		require.Equal(t, http.StatusBadRequest, response.StatusCode)
		require.NoError(t, response.Body.Close())
	})

	t.Run("a new certificate is served after SIGHUP, without a restart", func(t *testing.T) {
		g.install(2)
		require.NoError(t, syscall.Kill(g.pid(), syscall.SIGHUP))
		g.accepted(t, 2)
	})

	t.Run("one that can't be read is said to be so, and the old one is served", func(t *testing.T) {
		require.NoError(t, os.WriteFile(g.path(certificateFile), []byte("nonsense"), 0o600))
		require.NoError(t, syscall.Kill(g.pid(), syscall.SIGHUP))
		eventually(t, "the log says what is wrong", func() error {
			if !strings.Contains(g.log.String(), "http.tls.certificate") {
				return errors.New("it does not")
			}

			return nil
		})
		g.accepted(t, 2)
	})

	g.stop()
}
