package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/internal/inputfile"
	"hafvf/internal/testing/expect"
)

// Each file in a config, except sources of records, is refused with the path of its key if it is a folder, a device or
// too large. States and marks may have any size.
func TestInputFiles(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	expect.OK(t, os.WriteFile(large, nil, 0o600))
	expect.OK(t, os.Truncate(large, 64*inputfile.MB+1)) // uses no disk space
	const kafka = `source: {kafka: {brokers: ["127.0.0.1:1"], topics: [in], group: g, `
	for _, c := range []struct {
		key, text string
		anySize   bool
	}{
		{"state", "state: %q, source: {csv: {path: a.csv}}", true},
		{"marks.jsonl.path", "detect: true, marks: {jsonl: {path: %q}}, source: {csv: {path: a.csv}}", true},
		{"quiet.0.file", "quiet: [{file: %q}], source: {csv: {path: a.csv}}", false},
		{"detect.holidays.file", "detect: {holidays: {file: %q}}, source: {csv: {path: a.csv}}", false},
		{"source.prometheus.tls.ca", `source: {prometheus: {url: "https://127.0.0.1:1/", query: up, tls: {ca: %q}}}`, false},
		{"source.kafka.tls.ca", kafka + "tls: {ca: %q}}}", false},
		{"source.kafka.tls.cert", kafka + "tls: {cert: %q, key: none}}}", false},
		{"source.kafka.tls.key", kafka + "tls: {cert: none, key: %q}}}", false},
	} {
		want := "a regular file or a pipe"
		if c.anySize {
			want = "a regular file"
		}
		for path, why := range map[string]string{dir: "is a folder: give " + want, "/dev/zero": "zero is a device: give " + want, large: " MB"} {
			_, err := Parse("a.yaml", fmt.Appendf(nil, "{model: {family: normal}, "+c.text+"}", path), nil)
			if path == large && c.anySize {
				expect.OK(t, err)
			} else if err == nil || !strings.Contains(err.Error(), ":1: "+c.key+": ") || !strings.HasSuffix(err.Error(), why) {
				t.Errorf("%s: %s: %v", c.key, path, err)
			}
		}
	}
}
