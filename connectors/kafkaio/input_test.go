package kafkaio

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

// A sink refuses elements of another type when the pipeline is made, and names the type that it takes.
func TestWriteChecksItsInput(t *testing.T) {
	_, s := beam.NewPipelineWithRoot()
	for want, write := range map[string]func(){
		"kafkaio.Write takes a PCollection<KV<[]uint8,[]uint8>>, but the elements of the input are string": func() { Write(s, Sink{}, beam.Create(s, "a")) },
		"kafkaio.WriteChunks takes a PCollection<[]uint8>, but the elements of the input are int":          func() { WriteChunks(s, Sink{}, beam.Create(s, 1)) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("%s\nwithout %s", got, want)
				}
			}()
			write()
		}()
	}
}
