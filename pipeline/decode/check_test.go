package decode

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/connectors"
	"hafvf/internal/testing/expect"
	"hafvf/internal/times"
	"hafvf/pipeline/config"
)

// TestCheckFiles checks that times are Unix times if each file begins with some that are no dates, and that days of a
// spreadsheet are an error.
func TestCheckFiles(t *testing.T) {
	f := config.Fields{Key: []string{"key"}, Time: []string{"time"}, Values: []string{"x"}}
	for _, c := range []struct {
		want  string
		files []string // their times
	}{
		{times.Unix, []string{"1767323045"}},
		{times.Unix, []string{"20000000 20000060 20000120", "0"}},
		{"", []string{"20001231 20001232"}},
		{"", []string{"20000101 20000102"}},
		{"", []string{"20000101", "1767323045"}},
		{"", []string{"2026-01-01"}},
		{"", []string{""}},
		{"days of a spreadsheet, such as 46023.5", []string{"46023.5 46024"}},
		{"seem to be years, such as 2019: set time_format: \"%Y\"", []string{"2019 2019 2020"}},
		{"small numbers, such as 0, and are read as seconds", []string{"0 1 2 1999", "1767323045"}},
		{"small numbers, such as 19990", []string{"19990 20000"}},
		{times.Unix, []string{"-1 0 1"}},
	} {
		dir := t.TempDir()
		for i, text := range c.files {
			rows := "key,time,x\n"
			for s := range strings.FieldsSeq(text) {
				rows += "a," + s + ",1\n"
			}
			expect.OK(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".csv")), []byte(rows), 0o600))
		}
		src := connectors.Source{Format: connectors.CSV, Path: dir + "/*.csv", Key: []string{"key"}, Time: "time", Values: []string{"x"}}
		format, remark, err := CheckFiles(src, expect.Get(NewParser(f))(t))
		if err != nil {
			format = err.Error()
		} else if remark != "" {
			format = remark
		}
		if !strings.Contains(format, c.want) || c.want == "" && format != "" {
			t.Errorf("%q: %q", c.files, format)
		}
	}
}
