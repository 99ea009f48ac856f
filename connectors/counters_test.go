package connectors

import (
	"path/filepath"
	"testing"

	"hafvf/internal/testing/expect"
)

// Skipped lines are counted in the account of the run, once each, in any bundle.
func TestReadCountsSkippedLines(t *testing.T) {
	src := ktx
	src.Path, src.Skip, src.Comment = filepath.Join(t.TempDir(), "f.csv"), 1, "#"
	write(t, src.Path, "a note\n# one\nkey,time,x\na,1,1\n# two\nx,key,time\n2,a,2\n3,a,3\n4,a,4\n# by hand\n")
	p := newProbe(t, true)
	expect.OK(t, p.books.HandOver(t.Context(), 0, nil))
	expect.OK(t, run(t, p.books, pipelineOf(t, src, 1)))
	counts, _ := p.books.Counts()
	expect.Same(t, []int64{4, 5}, []int64{p.received.Load(), counts.Skipped}, "records, and lines that were passed over")
}
