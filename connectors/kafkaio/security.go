package kafkaio

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"hafvf/internal/message"
	"hafvf/internal/secret"
)

// TLS says whom to trust and as whom to appear. The zero value trusts the
// authorities of the system and shows no certificate. The versions are 1.2 and
// above; a broker's certificate must be for the host name by which it is reached.
type TLS struct {
	// CA is a PEM file of the authorities that are trusted in place of the
	// system's.
	CA string
	// Cert and Key are PEM files, both or neither: the certificate that this
	// client shows.
	Cert, Key string
}

// SASL is a login.
type SASL struct {
	// Mechanism is PLAIN (for TLS only: the password is sent as it is),
	// SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism string
	Username  string
	Password  Secret
}

// Secret is where a password stands.
type Secret = secret.Secret

// Config reads the files. It is nil for a nil TLS.
func (t *TLS) Config() (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
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
		cert, err := os.ReadFile(t.Cert)
		if err != nil {
			return nil, fmt.Errorf("tls.cert: %s cannot be read: %w", t.Cert, message.Cause(err))
		}
		key, err := os.ReadFile(t.Key)
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

// mechanism reads the password, which it returns too. It is nil without a login.
func (s *SASL) mechanism() (m sasl.Mechanism, password string, err error) {
	if s == nil {
		return nil, "", nil
	}
	const plainName = "PLAIN"
	known := []string{plainName, scram.SHA256.Name(), scram.SHA512.Name()}
	if !slices.Contains(known, s.Mechanism) {
		return nil, "", fmt.Errorf("sasl.mechanism %q is not known: it is one of %s", s.Mechanism, strings.Join(known, ", "))
	}
	if s.Username == "" {
		return nil, "", errors.New("sasl.username is missing")
	}
	if password, err = s.Password.Value("sasl.password"); err != nil {
		return nil, "", err
	}
	algorithm := scram.SHA512
	switch s.Mechanism {
	case plainName:
		return plain.Mechanism{Username: s.Username, Password: password}, password, nil
	case scram.SHA256.Name():
		algorithm = scram.SHA256
	}
	m, err = scram.Mechanism(algorithm, s.Username, password)
	if err != nil {
		// The library's error might quote what it refused.
		return nil, "", fmt.Errorf("sasl.username, or the password in %s, has characters that %s forbids", s.Password.Where(), s.Mechanism)
	}
	return m, password, nil
}
