package kafkaio

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// A Cluster describes how to reach Kafka. It is plain data that is sent to workers as JSON. It holds the places of
// secrets instead of the secrets. Errors write its fields in lower case: tls.ca is TLS.CA.
type Cluster struct {
	// Brokers are the addresses of some brokers, host:port. The default port is 9092. These brokers return the
	// addresses of all brokers (advertised.listeners), which must be reachable too.
	Brokers []string
	// TLS is nil for a port without encryption.
	TLS *TLS
	// SASL is nil for a port without login.
	SASL *SASL
}

// user returns the name of the user for messages.
func (c Cluster) user() string {
	if c.SASL != nil {
		return fmt.Sprintf("user %q", c.SASL.Username)
	}
	return "this client"
}

// addresses returns the brokers, each with a port.
func (c Cluster) addresses() ([]string, error) {
	var addrs []string
	for _, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		if err != nil {
			host, port = strings.Trim(b, "[]"), "9092"
		}
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 || host == "" || strings.ContainsAny(b, "/, ") {
			return nil, fmt.Errorf("broker %q is not of the form host:port", b)
		}
		addrs = append(addrs, net.JoinHostPort(host, port))
	}
	if len(addrs) == 0 {
		return nil, errors.New("no broker is given: name one or more as host:port")
	}
	return addrs, nil
}
