// Package embedded runs a Kafka broker inside this process, for examples and trials. It links franz-go's kfake, which
// programs that only read and write topics do not need.
package embedded

import (
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

// partitions is the number of partitions of each topic.
const partitions = 4

// Start starts a broker on the loopback interface and creates topics with 4 partitions each. The broker also creates
// every other topic that a client asks for. It keeps everything in memory until stop is called.
//
// The broker listens on the port of address, which has the form 127.0.0.1:port, or on a free port if address is empty.
// Start returns its actual address.
func Start(address string, topics ...string) (broker string, stop func(), err error) {
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.DefaultNumPartitions(partitions), kfake.AllowAutoTopicCreation(), kfake.SeedTopics(partitions, topics...)}
	if address != "" {
		_, port, err := net.SplitHostPort(address)
		n, bad := strconv.Atoi(port)
		if err != nil || bad != nil {
			return "", nil, fmt.Errorf("an embedded broker cannot listen at %s: use 127.0.0.1:port", address)
		}
		options = append(options, kfake.Ports(n))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return "", nil, fmt.Errorf("the embedded broker does not start: %w", err)
	}
	return cluster.ListenAddrs()[0], cluster.Close, nil
}
