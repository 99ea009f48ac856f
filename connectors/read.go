package connectors

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"hafvf/internal/account"
	"hafvf/internal/dofn"
	"hafvf/internal/inorder"
)

func init() {
	register.Function4x2((&readFn{}).ProcessElement)
	dofn.Register(func(f *readFn) any { return f.ProcessElement })
	register.Function5x2((&pipeFn{}).ProcessElement)
	dofn.Register(func(f *pipeFn) any { return f.ProcessElement })
	register.Emitter2[beam.EventTime, Batch]()
}

const (
	// BundleRecords and BundleBytes are how much a source emits in one bundle:
	// it ends a bundle when one of them is reached.
	BundleRecords = 1 << 15
	BundleBytes   = 64 << 20
)

// linger is how long a source that has emitted something waits for more before
// it ends the bundle, so that records of a slow pipe become visible.
const linger = 200 * time.Millisecond

// Read reads src and returns a PCollection<Batch>, bounded, in the order of
// the files, if the runner keeps an order. A run in this process holds the source back
// and can stop it. It may carry FileMarks of what is to be passed over.
func Read(s beam.Scope, src Source) beam.PCollection {
	s = s.Scope("connectors.Read")
	fn := newReadFn(src)
	return beam.ParDo(s, &fn, beam.Impulse(s))
}

func newReadFn(src Source) readFn { return readFn{Source: src, Run: rand.Text()} }

// readFn is splittable only in time: a call emits one bundle and puts the rest
// off. Its restriction counts records, and is open-ended because nobody knows
// how many there are.
type readFn struct {
	inorder.Offsets
	Source Source
	Run    string // names the open source between calls
}

func (fn *readFn) CreateInitialRestriction([]byte) offsetrange.Restriction {
	return offsetrange.Restriction{End: inorder.Unbounded}
}

func (fn *readFn) ProcessElement(ctx context.Context, rt *sdf.LockRTracker, _ []byte, emit func(Batch)) (sdf.ProcessContinuation, error) {
	_, ended, err := fn.call(ctx, rt, math.MaxInt64, func(_ *input, b Batch) { emit(b) })
	if err != nil || ended {
		return sdf.StopProcessing(), err
	}
	return sdf.ResumeProcessingIn(0), nil
}

// call emits a bundle, for whose first record it waits, and reports whether the input has ended.
func (fn *readFn) call(ctx context.Context, rt *sdf.LockRTracker, wait time.Duration, emit func(*input, Batch)) (in *input, ended bool, err error) {
	run := account.From(ctx)
	at := rt.GetRestriction().(offsetrange.Restriction).Start
	in = fn.resume(at, account.Value[*FileMarks](run, ""))
	most, bytes := cmp.Or(fn.Source.BundleRecords, BundleRecords), cmp.Or(fn.Source.BundleBytes, BundleBytes)
	n, size := 0, 0
	for !ended && n < most && size < bytes {
		if n > 0 {
			wait = linger
		}
		records, err := in.next(ctx, run.Stopped(), wait)
		if ended = err == io.EOF; ended || err == errSlow {
			break
		}
		if err != nil {
			in.close()
			return in, false, err
		}
		k := 0
		for ; k < len(records) && n+k < most && size < bytes; k++ {
			records[k].Index = at + int64(k)
			size += records[k].size()
		}
		if !rt.TryClaim(at + int64(k-1)) { // and all before it
			ended = true // the runner has put the rest off already
			break
		}
		emit(in, Batch{in.take(k)})
		at += int64(k)
		n += k
	}
	run.Report(account.Report{Counts: account.Counts{Skipped: in.skipped.n.Swap(0)}})
	// What is emitted here shows when this call has returned: until then the bundle
	// before it must be out of the way.
	if err := run.HandOver(ctx, n, nil); err != nil {
		in.close()
		return in, false, err
	}
	if ended && rt.GetRestriction().(offsetrange.Restriction).End == inorder.Unbounded {
		inorder.End(rt)
		in.close()
		return in, true, nil
	}
	inputs.Store(fn.Run, in)
	return in, ended, nil
}

// inputs are the sources that are open between two calls, by run.
var inputs sync.Map // of *input

// resume returns the input of this run if it is open and at record at. Otherwise, on a
// first call or after a restart, it opens the source.
func (fn *readFn) resume(at int64, marks *FileMarks) *input {
	if v, ok := inputs.LoadAndDelete(fn.Run); ok {
		in := v.(*input)
		if in.at == at {
			return in
		}
		in.close()
	}
	return newInput(fn.Source, at, marks)
}

// An input reads a source ahead in a goroutine. A caller that waits for a record can
// therefore stop waiting: standard input may be silent for ever.
type input struct {
	at    int64    // the first record that next returns
	batch []Record // that are not taken

	ready, room chan struct{} // one token each: something to take, room for more
	closed      <-chan struct{}
	close       func()
	skipped     skippedLines // lines, and not reported yet
	times       pipeTimes    // of the records that were emitted, of a pipe

	mu    sync.Mutex
	ahead []Record
	size  int
	err   error // why there will be no more
}

// How far an input reads ahead.
const (
	aheadRecords = 1 << 10
	aheadBytes   = 4 << 20
)

func newInput(src Source, at int64, marks *FileMarks) *input {
	in := &input{at: at, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	closed := make(chan struct{})
	in.closed, in.close = closed, sync.OnceFunc(func() { close(closed) })
	go in.read(src, at, marks)
	return in
}

func (in *input) read(src Source, skip int64, marks *FileMarks) {
	err := in.readAll(src, skip, marks)
	in.mu.Lock()
	in.err = err
	in.mu.Unlock()
	notify(in.ready)
}

func (in *input) readAll(src Source, skip int64, marks *FileMarks) error {
	if skip > 0 && readsOnce(src.Path) {
		return fmt.Errorf("%s cannot be read again after record %d: start the run again", fileName(src.Path), skip)
	}
	in.skipped.wasRead(skip > 0)
	rd, err := open(src, marks, &in.skipped)
	if err != nil {
		return err
	}
	defer rd.Close()
	last := 0 // as many records as there were in the latest batch
	for {
		rec, err := rd.Next()
		if err != nil {
			return err
		}
		if skip > 0 {
			skip--
			in.skipped.wasRead(skip > 0)
			continue
		}
		in.mu.Lock()
		if in.ahead == nil {
			in.ahead = make([]Record, 0, last)
		}
		in.ahead = append(in.ahead, rec)
		last = len(in.ahead)
		in.size += rec.size()
		full := len(in.ahead) >= aheadRecords || in.size >= aheadBytes
		in.mu.Unlock()
		notify(in.ready)
		for full {
			select {
			case <-in.room:
			case <-in.closed:
				return nil
			}
			in.mu.Lock()
			full = len(in.ahead) >= aheadRecords || in.size >= aheadBytes
			in.mu.Unlock()
		}
	}
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// errSlow says that no record came in the time given for it.
var errSlow = errors.New("no record yet")

// next returns the records that are there, until take has taken them; io.EOF at the end
// and when stopped; errSlow when none came within patience; or the error of ctx or of
// reading.
func (in *input) next(ctx context.Context, stopped <-chan struct{}, patience time.Duration) ([]Record, error) {
	select {
	case <-stopped:
		return nil, io.EOF
	default:
	}
	var late <-chan time.Time
	for len(in.batch) == 0 {
		in.mu.Lock()
		in.batch, in.ahead = in.ahead, nil
		in.size = 0
		err := in.err
		in.mu.Unlock()
		notify(in.room)
		if len(in.batch) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		if late == nil {
			late = time.After(patience)
		}
		select {
		case <-in.ready:
		case <-stopped:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late:
			return nil, errSlow
		}
	}
	return in.batch, nil
}

// take takes the first n records.
func (in *input) take(n int) []Record {
	taken := in.batch[:n:n]
	in.batch = in.batch[n:]
	in.at += int64(n)
	return taken
}
