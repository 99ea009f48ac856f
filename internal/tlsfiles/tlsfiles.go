// Package tlsfiles reads the certificates that connections are encrypted with.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"hafvf/internal/inputfile"
	"hafvf/internal/message"
)

// A TLS says whom to trust and as whom to appear. The zero value trusts the
// authorities of the system and shows no certificate. The versions are 1.2 and above; a
// server's certificate must be for the host name by which it is reached.
type TLS struct {
	// CA is a PEM file of the authorities that are trusted in place of the
	// system's.
	CA string
	// Cert and Key are PEM files, both or neither: the certificate that this
	// client shows.
	Cert, Key string
}

// MaxBytes is the size in bytes of the largest of these files.
const MaxBytes = inputfile.MB

// Config reads the files. It is nil for a nil TLS.
func (t *TLS) Config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pem, _, err := inputfile.Read(t.CA, MaxBytes)
		if err != nil {
			return nil, fmt.Errorf("tls.ca: %s cannot be read: %w", t.CA, message.Cause(err))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca: %s holds no certificate in PEM form", t.CA)
		}
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("tls.cert and tls.key belong together: give both or neither")
	}
	if t.Cert != "" {
		cert, _, err := inputfile.Read(t.Cert, MaxBytes)
		if err != nil {
			return nil, fmt.Errorf("tls.cert: %s cannot be read: %w", t.Cert, message.Cause(err))
		}
		key, _, err := inputfile.Read(t.Key, MaxBytes)
		if err != nil {
			// It may be the key itself that stands there.
			return nil, fmt.Errorf("tls.key: the file that it names cannot be read: %w", message.Cause(err))
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tls.cert %s and tls.key %s cannot be used: %w", t.Cert, t.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
