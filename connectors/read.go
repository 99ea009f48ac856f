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
	// BundleRecords and BundleBytes bound a bundle. A source ends a bundle when it reaches one of them.
	BundleRecords = 1 << 15
	BundleBytes   = 64 << 20
)

// linger is how long a source waits for more records before it ends a bundle, so that records of a slow pipe become
// visible.
const linger = 200 * time.Millisecond

// Read reads src and returns a bounded PCollection<Batch>, in the order of the files if the runner keeps an order.
// A run in this process can slow down and stop the source. The run may carry FileMarks of records to skip.
func Read(s beam.Scope, src Source) beam.PCollection {
	s = s.Scope("connectors.Read")
	fn := newReadFn(src)
	return beam.ParDo(s, &fn, beam.Impulse(s))
}

func newReadFn(src Source) readFn { return readFn{Source: src, Run: rand.Text()} }

// readFn is splittable only in time: a call emits one bundle and defers the rest. Its restriction counts records.
// It is open-ended because their number is unknown.
type readFn struct {
	inorder.Offsets
	Source Source
	Run    string // identifies the open source between calls
}

func (fn *readFn) CreateInitialRestriction([]byte) offsetrange.Restriction {
	return offsetrange.Restriction{End: inorder.Unbounded}
}

func (fn *readFn) ProcessElement(ctx context.Context, rt *sdf.LockRTracker, _ []byte, emit func(Batch)) (sdf.ProcessContinuation, error) {
	_, ended, err := fn.emitBundle(ctx, rt, math.MaxInt64, func(_ *input, b Batch) { emit(b) })
	if err != nil || ended {
		return sdf.StopProcessing(), err
	}
	return sdf.ResumeProcessingIn(0), nil
}

// emitBundle waits for a record and emits a bundle. ended reports whether the input has ended.
func (fn *readFn) emitBundle(ctx context.Context, rt *sdf.LockRTracker, wait time.Duration, emit func(*input, Batch)) (in *input, ended bool, err error) {
	run := account.From(ctx)
	index := rt.GetRestriction().(offsetrange.Restriction).Start
	in = fn.resume(index, account.Value[*FileMarks](run, ""))
	maxRecords, maxBytes := cmp.Or(fn.Source.BundleRecords, BundleRecords), cmp.Or(fn.Source.BundleBytes, BundleBytes)
	n, size := 0, 0
	for !ended && n < maxRecords && size < maxBytes {
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
		for ; k < len(records) && n+k < maxRecords && size < maxBytes; k++ {
			records[k].Index = index + int64(k)
			size += records[k].size()
		}
		if !rt.TryClaim(index + int64(k-1)) { // including all before it
			ended = true // the runner has already deferred the rest
			break
		}
		emit(in, Batch{in.pop(k)})
		index += int64(k)
		n += k
	}
	run.Report(account.Report{Counts: account.Counts{Skipped: in.skipped.n.Swap(0)}})
	// The bundle becomes visible downstream when this call returns. HandOver first waits until the previous bundle
	// is done.
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

// inputs contains the sources that are open between two calls, by readFn.Run.
var inputs sync.Map // of *input

// resume returns the open input of this run if its next record has the index. Otherwise, on a first call or after a
// restart, it opens the source.
func (fn *readFn) resume(index int64, marks *FileMarks) *input {
	if v, ok := inputs.LoadAndDelete(fn.Run); ok {
		in := v.(*input)
		if in.nextIndex == index {
			return in
		}
		in.close()
	}
	return newInput(fn.Source, index, marks)
}

// An input reads a source ahead in a goroutine. A caller can therefore stop waiting for a record: standard input
// may be silent forever.
type input struct {
	nextIndex int64    // of the first record that next returns
	batch     []Record // records that pop has not returned yet

	ready, room chan struct{} // one token each: records are ready, there is room for more
	closed      <-chan struct{}
	close       func()
	skipped     skippedLines // not reported yet
	times       pipeTimes    // of the emitted records of a pipe

	mu    sync.Mutex
	ahead []Record
	size  int
	err   error // why there will be no more records
}

// Limits for reading ahead.
const (
	aheadRecords = 1 << 10
	aheadBytes   = 4 << 20
)

func newInput(src Source, index int64, marks *FileMarks) *input {
	in := &input{nextIndex: index, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	closed := make(chan struct{})
	in.closed, in.close = closed, sync.OnceFunc(func() { close(closed) })
	go in.read(src, index, marks)
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
	in.skipped.setReread(skip > 0)
	rd, err := open(src, marks, &in.skipped)
	if err != nil {
		return err
	}
	defer rd.Close()
	last := 0 // number of records in the previous batch
	for {
		rec, err := rd.Next()
		if err != nil {
			return err
		}
		if skip > 0 {
			skip--
			in.skipped.setReread(skip > 0)
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

// errSlow means that no record arrived in time.
var errSlow = errors.New("no record yet")

// next returns the records that pop has not returned yet. The error is io.EOF at the end or if stopped is closed,
// errSlow if no record arrives within patience, or the error of ctx or of reading.
func (in *input) next(ctx context.Context, stopped <-chan struct{}, patience time.Duration) ([]Record, error) {
	select {
	case <-stopped:
		return nil, io.EOF
	default:
	}
	var timeout <-chan time.Time
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
		if timeout == nil {
			timeout = time.After(patience)
		}
		select {
		case <-in.ready:
		case <-stopped:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timeout:
			return nil, errSlow
		}
	}
	return in.batch, nil
}

// pop returns the first n records and removes them.
func (in *input) pop(n int) []Record {
	popped := in.batch[:n:n]
	in.batch = in.batch[n:]
	in.nextIndex += int64(n)
	return popped
}
