package report

import (
	"os"
	"testing"
)

// HAFVF_REPORT_SAMPLES names a folder for pages of made-up fleets, to look at.
func TestSamples(t *testing.T) {
	dir := os.Getenv("HAFVF_REPORT_SAMPLES")
	if dir == "" {
		t.Skip("HAFVF_REPORT_SAMPLES names no folder")
	}
	for name, f := range map[string]fleet{
		"50":   {keys: 50, weeks: 8, every: 3600e9, perWeek: .6, incidents: true},
		"5000": {keys: 5000, weeks: 8, every: 3600e9, perWeek: .8, incidents: true},
	} {
		to := dir + "/" + name
		if err := os.MkdirAll(to, 0o700); err != nil {
			t.Fatal(err)
		}
		f.write(t, to)
	}
}
