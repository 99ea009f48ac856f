package kafkaio

import (
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

// Embedded starts a broker inside this process, on the loopback interface, for a
// try-out: it keeps everything in memory and forgets it at the end. It listens at
// the port of the address that the cluster names, if it names one. The topics are
// created.
func Embedded(c Cluster, topics []string) (_ Cluster, close func(), err error) {
	options := []kfake.Opt{kfake.NumBrokers(1), kfake.DefaultNumPartitions(embeddedPartitions), kfake.AllowAutoTopicCreation(), kfake.SeedTopics(embeddedPartitions, topics...)}
	if len(c.Brokers) > 0 {
		_, port, err := net.SplitHostPort(c.Brokers[0])
		n, bad := strconv.Atoi(port)
		if err != nil || bad != nil {
			return c, nil, fmt.Errorf("an embedded broker cannot listen at %s: give 127.0.0.1:port", c.Brokers[0])
		}
		options = append(options, kfake.Ports(n))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return c, nil, fmt.Errorf("the embedded broker does not start: %w", err)
	}
	return Cluster{Brokers: cluster.ListenAddrs()}, cluster.Close, nil
}

const embeddedPartitions = 4
