package kafkaio

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"hafvf/internal/secret"
	"hafvf/internal/tlsfiles"
)

// TLS configures which certificates to trust and which to present. It uses TLS 1.2 or newer. A broker's certificate
// must be for the host name of its address.
type TLS = tlsfiles.TLS

// SASL is a login.
type SASL struct {
	// Mechanism is PLAIN (only with TLS, because the password is sent in clear text), SCRAM-SHA-256 or SCRAM-SHA-512.
	Mechanism string
	Username  string
	Password  Secret
}

// Secret is the place of a password.
type Secret = secret.Secret

// mechanism reads the password, and returns the mechanism and the password. The mechanism is nil without a login.
func (s *SASL) mechanism() (m sasl.Mechanism, password string, err error) {
	if s == nil {
		return nil, "", nil
	}
	const plainName = "PLAIN"
	known := []string{plainName, scram.SHA256.Name(), scram.SHA512.Name()}
	if !slices.Contains(known, s.Mechanism) {
		return nil, "", fmt.Errorf("sasl.mechanism %q is unknown: use one of %s", s.Mechanism, strings.Join(known, ", "))
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
		// The library's error might quote the rejected text.
		return nil, "", fmt.Errorf("sasl.username, or the password in %s, has characters that %s forbids", s.Password.Where(), s.Mechanism)
	}
	return m, password, nil
}
