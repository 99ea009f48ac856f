package pipeline

import (
	"reflect"

	"hafvf/connectors/kafkaio"
)

// clients holds one Kafka client for each cluster that a graph names.
type clients struct {
	clusters []kafkaio.Cluster
	all      []*kafkaio.Client
}

// of returns the client of a cluster, a new one at first.
func (c *clients) of(cluster kafkaio.Cluster) *kafkaio.Client {
	for i, have := range c.clusters {
		if reflect.DeepEqual(have, cluster) {
			return c.all[i]
		}
	}
	client := kafkaio.NewClient(cluster)
	c.clusters, c.all = append(c.clusters, cluster), append(c.all, client)
	return client
}

func (c *clients) close() {
	for _, client := range c.all {
		client.Close()
	}
}
