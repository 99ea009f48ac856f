package store

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/internal/account"
	"hafvf/internal/dofn"
)

func init() {
	register.Function1x0((&dropFn{}).ProcessElement)
	dofn.Register(func(f *dropFn) any { return f.ProcessElement })
}

// Drop takes a PCollection of any type, and says that its elements need not be stored.
func Drop(s beam.Scope, col beam.PCollection) {
	if typex.IsKV(col.Type()) {
		col = beam.DropKey(s, col)
	}
	beam.ParDo0(s, &dropFn{}, col)
}

type dropFn struct{ dropped int }

func (fn *dropFn) ProcessElement(beam.T) { fn.dropped++ }

func (fn *dropFn) FinishBundle(ctx context.Context) {
	account.From(ctx).Stored(fn.dropped)
	fn.dropped = 0
}
