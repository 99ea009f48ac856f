package observe

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hafvf/connectors"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

// read returns what becomes of the records of a file with some settings of the source: key, time and value,
// or the reason for the rejection.
func read(t *testing.T, format, settings, text string) (all []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in."+format)
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	if !strings.Contains(settings, "key:") && !strings.Contains(settings, "wide") {
		settings += ", key: none"
	}
	c := expect.Get(config.Parse("c", fmt.Appendf(nil, "order: arrival\nmodel: {family: normal}\nsource: {%s: {path: %s, %s}}", format, path, settings), nil))(t)
	src, fields := Files(c)
	d := NewDecoder(format, expect.Get(NewParser(fields))(t))
	in := expect.Get(connectors.Open(src))(t)
	defer in.Close()
	for {
		r, err := in.Next()
		if err == io.EOF {
			return all
		}
		expect.OK(t, err)
		d.File([]connectors.Record{r}, func(found []Decoded) {
			for _, o := range found {
				switch {
				case o.Err != nil:
					all = append(all, o.Err.Error())
				case o.Time.IsZero():
					all = append(all, fmt.Sprint(o.Key, o.X))
				default:
					all = append(all, fmt.Sprint(o.Key, o.X, o.Time.UTC().Format(time.RFC3339Nano)))
				}
			}
		})
	}
}

// TestJoinedTimes reads times from several columns or fields.
func TestJoinedTimes(t *testing.T) {
	for _, c := range []struct{ format, settings, text, want string }{
		{"csv", `time: [Date, Time], delimiter: ";", time_format: "%d/%m/%Y %H:%M:%S"`,
			"Date;Time;x\n16/12/2006;17:24:00;1\n16/12/2006; 17:24:00.5 ;2\n;17:24:00;3\n16/12/2006;;4\n16/12/2006;25:00:00;5\n",
			"in[[1]]2006-12-16T17:24:00Z|in[[2]]2006-12-16T17:24:00.5Z|in[[3]]|in[[4]]|" + `the time "16/12/2006 25:00:00" does not parse; understood are `},
		{"csv", "time: [a, b], zone: Europe/Berlin", "x,b,a\n1,12:00,2026-07-01\n", "in[[1]]2026-07-01T10:00:00Z"},
		{"csv", `time: [d, t], layout: wide, time_format: "%m/%d/%y %I:%M %p"`, "d,t,a,b\n1/2/26,3:04 pm,1,2\n", "a[[1]]2026-01-02T15:04:00Z|b[[2]]2026-01-02T15:04:00Z"},
		{"csv", "time: [d, t], key: [k]", "t,k,x,d\n12:00,a,1,2026-07-01\n", "a[[1]]2026-07-01T12:00:00Z"},
		{"jsonl", "time: [at.d, t]", `{"at":{"d":"2026-07-01"},"t":"12:00","x":1}` + "\n" + `{"at":{"d":20260701},"t":"1200","x":1}` + "\n" + `{"at":{"d":null},"t":"12:00","x":1}` + "\n" + `{"t":"12:00","x":1}` + "\n" + `{"at":{"d":[]},"t":"12:00","x":1}`,
			`in[[1]]2026-07-01T12:00:00Z|in[[1]]2026-07-01T12:00:00Z|in[[1]]|in[[1]]|"at.d" of the time is a list, not text or a number`},
		{"jsonl", "time: [d, t], layout: wide", `{"d":"2026-07-01","t":"12:00","x":1,"y":2}`, "x[[1]]2026-07-01T12:00:00Z|y[[2]]2026-07-01T12:00:00Z"},
	} {
		got := strings.Join(read(t, c.format, c.settings, c.text), "|")
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.settings, got, c.want)
		}
	}
}
