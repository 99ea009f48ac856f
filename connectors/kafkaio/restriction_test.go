package kafkaio

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"hafvf/internal/testing/expect"
)

func anyRestriction(t *rapid.T) restriction {
	r := restriction{Readers: 1, Bounded: rapid.Bool().Draw(t, "bounded")}
	for p := range rapid.IntRange(0, 3).Draw(t, "partitions") {
		s := span{Position: Position{"in", p, rapid.Int64Range(0, 5).Draw(t, "offset")}, End: -1}
		if r.Bounded {
			s.End = s.Offset + rapid.Int64Range(0, 5).Draw(t, "length")
		}
		r.Partitions = append(r.Partitions, s)
	}
	return r
}

// TestTracker claims records, adds partitions and splits at random. The claimed part and the residual make up the
// whole, and nothing can be claimed after a split.
func TestTracker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := anyRestriction(t)
		want := first.clone()
		tr := &tracker{rest: first.clone()}
		var residual *restriction
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			over1 := residual != nil || want.Over
			switch what := rapid.SampledFrom([]string{"take", "take", "take", "find", "fraction", "split", "over"}).Draw(t, "step"); what {
			case "take":
				if len(want.Partitions) == 0 {
					continue
				}
				i := rapid.IntRange(0, len(want.Partitions)-1).Draw(t, "partition")
				s := &want.Partitions[i]
				before := s.Offset + rapid.Int64Range(0, 3).Draw(t, "n")
				if s.End >= 0 {
					before = min(before, s.End)
				}
				if ok := tr.TryClaim(claimRecords{partition: i, before: before}); ok == over1 {
					t.Fatalf("a claim is granted: %v", ok)
				} else if ok {
					s.Offset = before
				}
			case "find":
				if want.Bounded {
					continue
				}
				s := span{Position: Position{"in", len(want.Partitions), 0}, End: -1}
				if ok := tr.TryClaim(claimPartitions{s}); ok == over1 {
					t.Fatalf("a found partition is taken: %v", ok)
				} else if ok {
					want.Partitions = append(want.Partitions, s)
				}
			case "over":
				if ok := tr.TryClaim(claimRest{}); ok == over1 {
					t.Fatalf("the end is claimed: %v", ok)
				} else if ok {
					want.Over = true
				}
			case "fraction":
				_, rest, err := tr.TrySplit(rapid.Float64Range(0.001, 1).Draw(t, "fraction"))
				if rest != nil || err != nil {
					t.Fatalf("a fraction is split off: %v, %v", rest, err)
				}
			case "split":
				done := tr.IsDone()
				primary, rest, err := tr.TrySplit(0)
				if err != nil || (rest == nil) != done {
					t.Fatalf("a split leaves %v, %v", rest, err)
				}
				if rest == nil {
					continue
				}
				r := rest.(restriction)
				residual = &r
				if p := primary.(restriction); !p.done() || !tr.IsDone() {
					t.Fatalf("after a split the call has something to do")
				}
			}
			if tr.GetError() != nil {
				t.Fatal(tr.GetError())
			}
			if residual == nil && tr.IsDone() != want.done() {
				t.Fatalf("done: %v, with %v left", tr.IsDone(), want)
			}
		}
		left := tr.GetRestriction().(restriction)
		if residual != nil {
			left = *residual
		}
		if d := cmp.Diff(want, left); d != "" {
			t.Fatalf("what is left (-want +got):\n%s", d)
		}
		if tr.IsBounded() != first.Bounded {
			t.Fatal("IsBounded is wrong")
		}
	})
}

func TestTrackerBackwards(t *testing.T) {
	tr := &tracker{rest: restriction{Partitions: []span{{Position: Position{"in", 0, 5}, End: -1}}}}
	if tr.TryClaim(claimRecords{partition: 0, before: 4}) || tr.GetError() == nil {
		t.Error("records can be claimed twice")
	}
}

// recode encodes and decodes v as a runner does.
func recode[T any](t expect.T, v T) T {
	enc, dec := beam.NewElementEncoder(reflect.TypeFor[T]()), beam.NewElementDecoder(reflect.TypeFor[T]())
	var b bytes.Buffer
	expect.OK(t, enc.Encode(v, &b))
	got := expect.Get(dec.Decode(&b))(t)
	return got.(T)
}

func TestCoders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyRestriction(t)
		if d := cmp.Diff(r, recode(t, r)); d != "" {
			t.Fatal(d)
		}
	})
	for i, r := range []Record{
		{},
		{Position: Position{"in", 3, 1 << 40}, Time: base, Key: []byte{}, Value: []byte("\x00\xff"), Headers: []Header{{Key: "a"}, {Key: "b", Value: []byte{}}}, Oversized: 7},
		{Time: time.UnixMilli(1 << 55).UTC()}, // microseconds, read as milliseconds
		{Time: time.UnixMilli(-1).UTC()},      // means no timestamp
	} {
		if i == 0 {
			r.Time = time.UnixMilli(0).UTC()
		}
		expect.Same(t, r, recode(t, r))
	}
}

func TestPosition(t *testing.T) {
	p := Position{"a-b-7", 12, 345}
	if got, ok := parsePosition(p.Log(), p.Offset); !ok || got != p || fmt.Sprint(p) != "a-b-7-12-345" {
		t.Errorf("%v is parsed as %v", p, got)
	}
}
