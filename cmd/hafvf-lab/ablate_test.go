package main

import (
	"encoding/json"
	"strings"
	"testing"

	"hafvf/cmd/hafvf-lab/ablate"
	"hafvf/cmd/internal/cli"
	"hafvf/internal/testing/expect"
)

func TestAblateExitCodes(t *testing.T) {
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"--help"}, 0, "\n  Reserve          the reserve", ""},
		{[]string{"more"}, cli.ExitUsage, "", "unknown command"},
		{[]string{"--seeds", "0"}, cli.ExitUsage, "", "give at least 1"},
		{[]string{"--sets", "plan_1h"}, cli.ExitUsage, "", `the nearest is "plans_1h"`},
		{[]string{"--sets", "asd"}, cli.ExitUsage, "", "give its folder with --data"},
		{[]string{"--off", "Gross,Resrve"}, cli.ExitUsage, "", `the nearest is "Reserve"`},
		{[]string{"--sets", "plans_1h"}, cli.ExitFailed, "", "has to run in the sources"},
	} {
		code, stdout, stderr := program.Run(t, t.TempDir(), "", append([]string{"ablate"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v: exit %d, standard output %q, standard error %q", c.args, code, stdout, stderr)
		}
	}
}

// The command builds the worker and writes its rows.
func TestAblate(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	code, stdout, stderr := program.Run(t, ".", "", "ablate", "--sets", "plans_1h", "--seeds", "1", "--off", "Plan,Gross")
	lines := strings.Split(stdout, "\n")
	if code != 0 || len(lines) != 4 || !strings.Contains(stderr, " s of processor time for each of 2 rows\n") {
		t.Fatalf("exit %d, standard output %q, standard error %q", code, stdout, stderr)
	}
	if !strings.HasPrefix(lines[1], "                        0.") || !strings.HasPrefix(lines[2], "Plan+Gross               -") {
		t.Errorf("%s", stdout)
	}
}

func TestWriteAblation(t *testing.T) {
	job := ablate.Job{Sets: []string{"asd", "plans_1h"}, Rows: [][]string{{}, {"Gross"}}}
	results := ""
	for _, hit := range []int{4, 5, 4, 3} {
		text := expect.Get(json.Marshal(ablate.Result{Score: ablate.Score{Incidents: 8, Hit: hit, True: 6, False: 6, Later: .25}}))(t)
		results += string(text)
	}
	for _, c := range []struct {
		asCSV bool
		want  string
	}{
		{false, "off                   asd plans_1h\n                     0.500    0.556\nGross                  +0     -127\n"},
		{true, "off,set,f1,difference,incidents,hit,true_alarms,false_alarms,false_first_week,false_later\n" +
			",asd,0.5000,+0.0000,8,4,6,6,0.000,0.250\n,plans_1h,0.5556,+0.0000,8,5,6,6,0.000,0.250\n" +
			"Gross,asd,0.5000,+0.0000,8,4,6,6,0.000,0.250\nGross,plans_1h,0.4286,-0.1270,8,3,6,6,0.000,0.250\n"},
	} {
		var w strings.Builder
		expect.OK(t, writeAblation(&w, json.NewDecoder(strings.NewReader(results)), job, c.asCSV))
		expect.Same(t, c.want, w.String(), "rows")
	}
	expect.Error(t, writeAblation(&strings.Builder{}, json.NewDecoder(strings.NewReader("")), job, false), "the worker has stopped: EOF")
}
