package connectors

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// long reads the records of a source as key, series, time and value.
func long(t *testing.T, src Source) (all []string, err error) {
	t.Helper()
	rd, err := Open(src)
	if err != nil {
		return nil, err
	}
	defer rd.Close()
	for {
		r, err := rd.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if r.Reason != "" {
			all = append(all, fmt.Sprintf("%d: %s", r.Position, r.Reason))
			continue
		}
		all = append(all, fmt.Sprintf("%d: %s", r.Position, strings.Join(r.Fields, " ")))
	}
}

func TestWide(t *testing.T) {
	const table = "time,note,S1,S2,T/3,site\n1,fine,10,20,30,b\n2,,11,,31,b\n3,x\n4,so,n/a,22,32,c\n"
	for _, c := range []struct {
		name   string
		key    []string
		values []string
		want   []string
		err    string
	}{
		{"all numbers", nil, []string{"*"}, []string{
			"2: S1 1 10", "2: S2 1 20", "2: T/3 1 30", "3: S1 2 11", "3: S2 2 ", "3: T/3 2 31",
			"4: 2 fields where the header has 6", "5: S1 4 n/a", "5: S2 4 22", "5: T/3 4 32",
		}, ""},
		{"a key and a pattern", []string{"site"}, []string{"S?"}, []string{
			"2: b S1 1 10", "2: b S2 1 20", "3: b S1 2 11", "3: b S2 2 ", "4: 2 fields where the header has 6", "5: c S1 4 n/a", "5: c S2 4 22",
		}, ""},
		{"a name and a pattern, each column once", nil, []string{"T/3", "T*", "note"}, []string{
			"2: T/3 1 30", "2: note 1 fine", "3: T/3 2 31", "3: note 2 ", "4: 2 fields where the header has 6", "5: T/3 4 32", "5: note 4 so",
		}, ""},
		{"no such column", nil, []string{"S3"}, nil, `has no column "S3"`},
		{"no column of a pattern", nil, []string{"U*"}, nil, `has no column of values that matches "U*"`},
		{"no numbers", nil, []string{"n*"}, nil, `has no column of numbers that matches "n*"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := in(t, "a.csv", map[string]string{"a.csv": table})
			src.Key, src.Time, src.Values, src.Wide = c.key, "time", c.values, true
			got, err := long(t, src)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("%v, want %q", err, c.err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("%v %s", err, diff)
			}
		})
	}
}

// Columns of Parquet that are no numbers, or that cannot be read, are left out.
func TestWideParquet(t *testing.T) {
	third := 1.0 / 3
	src := pqAll
	src.Path = in(t, "a.parquet", map[string]string{"a.parquet": writeParquet(t, []pqRow{{Key: "a", I: -7, U: 2, F: 0.5, D: &third, Dec: -1205}, {Key: "b", I: 1, U: 3}})}).Path
	src.Wide, src.Time, src.Values = true, "milli", []string{"i", "d*"}
	got, err := long(t, src)
	want := []string{"1: a i 1970-01-01T00:00:00Z -7", "1: a d 1970-01-01T00:00:00Z 0.3333333333333333", "1: a dec 1970-01-01T00:00:00Z -12.05",
		"2: b i 1970-01-01T00:00:00Z 1", "2: b d 1970-01-01T00:00:00Z ", "2: b dec 1970-01-01T00:00:00Z 0.00"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

// More rows than are looked at are read, and the columns are chosen by the first of them.
func TestWideLong(t *testing.T) {
	var b strings.Builder
	b.WriteString("time,a,b\n")
	for i := range 2*wideLook + 1 {
		if i < wideLook {
			fmt.Fprintf(&b, "%d,%d,text\n", i, i)
		} else {
			fmt.Fprintf(&b, "%d,%d,7\n", i, i)
		}
	}
	src := in(t, "a.csv", map[string]string{"a.csv": b.String()})
	src.Key, src.Time, src.Values, src.Wide = nil, "time", []string{"*"}, true
	got, err := long(t, src)
	if err != nil || len(got) != 2*wideLook+1 || got[2*wideLook] != "2002: a 2000 2000" {
		t.Errorf("%d records, %v, the last %q", len(got), err, got[len(got)-1])
	}
}
