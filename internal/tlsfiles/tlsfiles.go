// Package tlsfiles reads certificates and keys for TLS connections.
package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"hafvf/internal/inputfile"
	"hafvf/internal/message"
)

// A TLS names the trusted authorities and the client's certificate. The zero value trusts the system's authorities
// and has no client certificate. The TLS version is at least 1.2, and a server's certificate must match the host
// name of the connection.
type TLS struct {
	// CA is a PEM file with the trusted authorities, which replace the system's.
	CA string
	// Cert and Key are PEM files with the client's certificate and key; both are set or neither.
	Cert, Key string
}

// Largest is the maximum size of a file in bytes.
const MaxBytes = inputfile.MB

// Config reads the files. It returns nil for a nil TLS.
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
			return nil, fmt.Errorf("tls.ca: %s contains no PEM certificate", t.CA)
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
			// The setting may contain the key itself instead of a file name, so the error does not show it.
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
