package pipeline

import (
	"reflect"

	"hafvf/connectors/kafkaio"
)

// clients holds one Kafka client for each cluster of a graph. The zero value is ready to use.
type clients struct {
	clusters []kafkaio.Cluster
	open     []*kafkaio.Client
}

// client returns the client of a cluster. The first call for a cluster creates it.
func (c *clients) client(cluster kafkaio.Cluster) *kafkaio.Client {
	for i, have := range c.clusters {
		if reflect.DeepEqual(have, cluster) {
			return c.open[i]
		}
	}
	client := kafkaio.NewClient(cluster)
	c.clusters, c.open = append(c.clusters, cluster), append(c.open, client)
	return client
}

func (c *clients) close() {
	for _, client := range c.open {
		client.Close()
	}
}
