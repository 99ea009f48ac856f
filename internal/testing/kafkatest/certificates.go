package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
)

// Certificates are PEM files: the certificate of an authority, and the certificates that it issued for a server and
// a client. Keys are in PKCS #8 and not encrypted. The server is 127.0.0.1, ::1 and localhost.
type Certificates struct {
	CA                    string
	ServerCert, ServerKey string
	ClientCert, ClientKey string
}

// NewCertificates creates an authority and its certificates, valid for a day, in a temporary folder of the test.
func NewCertificates(t testing.TB) Certificates {
	t.Helper()
	folder := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(folder, name)
		text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
		expect.OK(t, os.WriteFile(path, text, 0o600))
		return path
	}
	var authority *x509.Certificate
	var authorityKey *ecdsa.PrivateKey
	issue := func(name string, template x509.Certificate) (cert, key string) {
		private := expect.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		template.SerialNumber = expect.Get(rand.Int(rand.Reader, big.NewInt(1<<62)))(t)
		template.Subject = pkix.Name{CommonName: "kafkatest " + name}
		template.NotBefore = time.Now().Add(-time.Hour)
		template.NotAfter = time.Now().Add(24 * time.Hour)
		if authority == nil {
			authority, authorityKey = &template, private // signs itself
		}
		der := expect.Get(x509.CreateCertificate(rand.Reader, &template, authority, &private.PublicKey, authorityKey))(t)
		pkcs8 := expect.Get(x509.MarshalPKCS8PrivateKey(private))(t)
		return write(name+".pem", "CERTIFICATE", der), write(name+"-key.pem", "PRIVATE KEY", pkcs8)
	}
	var c Certificates
	c.CA, _ = issue("authority", x509.Certificate{
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	})
	c.ServerCert, c.ServerKey = issue("server", x509.Certificate{
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	c.ClientCert, c.ClientKey = issue("client", x509.Certificate{
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return c
}
