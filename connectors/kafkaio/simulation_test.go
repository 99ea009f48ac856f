package kafkaio

import (
	"testing"
	"time"
)

func TestSimSmoke(t *testing.T) {
	begin := time.Now()
	for range 2 {
		for _, s := range []schedule{
			{{feed, 10, 1, 0, 0, 0}, {start, 0, 0, 0, 0, 5 * time.Second}, {kill, 0, 0, 0, 0, 0}, {feed, 10, 2, 0, 0, 0}, {start, 0, 0, 0, 0, 3 * time.Second}},
			{{feed, 10, 1, 0, 0, 0}, {start, 0, 0, 0, 0, 5 * time.Second}, {lose, 0, 0, 0, 0, 0}},
			{{feed, 10, 1, 0, 0, 0}, {start, 0, 0, 0, 0, 5 * time.Second}, {recreate, 10, 0, 0, 0, 0}},
			{{feed, 10, 1, 0, 0, 0}, {start, 0, 0, 0, 0, 5 * time.Second}, {grow, 10, 0, 0, 0, 0}, {feed, 10, 1, 0, 0, 0}, {reset, 1, 3, 0, 0, 0}, {start, 0, 0, 0, 0, 3 * time.Second}},
		} {
			at := time.Now()
			for _, v := range simulate(t, s, "") {
				t.Errorf("%v: %s", s, v)
			}
			t.Log(time.Since(at))
		}
	}
	t.Log(time.Since(begin) / 8)
}
