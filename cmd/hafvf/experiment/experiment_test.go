package experiment

import (
	"context"
	"os"
	"testing"
)

func TestTry(t *testing.T) {
	dir := os.Getenv("TRY")
	for _, e := range All {
		if e.simulate == nil {
			continue
		}
		table, files, err := e.Run(context.Background(), 1, dir, nil)
		t.Log(table, files, err)
	}
}
