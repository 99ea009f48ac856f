package sniff

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"hafvf/internal/testing/expect"
)

// TestDraftOfRaggedRecords checks that records that lack columns do not change the draft, and that those without a
// key are counted.
func TestDraftOfRaggedRecords(t *testing.T) {
	var lines []string
	for i := range 60 {
		switch seconds := fmt.Sprint(1700000000 + i/3*60); {
		case i == 20 || i == 59:
			lines = append(lines, `{"after": null, "t": `+seconds+`, "op": "d"}`)
		default:
			lines = append(lines, fmt.Sprintf(`{"after": {"id": "dev-%d", "site": "s", "x": %d.5}, "t": %s, "op": "u"}`, i%3, i%7, seconds))
		}
	}
	draft := expect.Get(Draft(write(t, "in.jsonl", strings.Join(lines, "\n"))))(t)
	for _, want := range []string{"key: after.id", "dev-0, dev-1, dev-2; 2 records have none", "values: [after.x]", "time: t"} {
		if !strings.Contains(string(draft.Config), want) {
			t.Errorf("no %q in\n%s", want, draft.Config)
		}
	}
}

// TestDraftOfAnyRecords checks that a draft of random incomplete records does not panic.
func TestDraftOfAnyRecords(t *testing.T) {
	path := write(t, "in.jsonl")
	texts := map[string][]string{
		"time":   {`"2026-01-01T00:00:%02dZ"`, `17000000%02d`, `"yesterday"`, `null`, `""`},
		"id":     {`"a"`, `"b"`, `"c%d"`, `%d`, `null`, `""`, `[1]`},
		"x":      {`%d`, `%d.25`, `"%d"`, `"1,5"`, `"n/a"`, `null`, `[1, 2]`},
		"errors": {`0`, `1`, `%d`, `null`},
		"total":  {`7`, `99`, `null`},
		"site":   {`"north"`, `"south"`, `""`},
		"more":   {`{"deep": %d}`, `{"deep": null}`, `"flat"`, `[]`},
	}
	names := []string{"time", "id", "x", "errors", "total", "site", "more"}
	rapid.Check(t, func(t *rapid.T) {
		columns := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, len(names), rapid.ID).Draw(t, "columns")
		lacking := rapid.SampledFrom([]float64{0, .02, .1, .5}).Draw(t, "lacking")
		form := map[string]int{}
		for _, c := range columns {
			form[c] = rapid.IntRange(0, len(texts[c])-1).Draw(t, c)
		}
		var lines []string
		for i := range rapid.IntRange(0, 40).Draw(t, "records") {
			var fields []string
			for _, c := range columns {
				if rapid.Float64Range(0, 1).Draw(t, "chance") < lacking {
					continue
				}
				variants := texts[c]
				text := variants[form[c]]
				if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
					text = rapid.SampledFrom(variants).Draw(t, "text")
				}
				if strings.Contains(text, "%") {
					text = fmt.Sprintf(text, i)
				}
				fields = append(fields, fmt.Sprintf("%q: %s", c, text))
				if rapid.IntRange(0, 49).Draw(t, "twice") == 0 {
					fields = append(fields, fmt.Sprintf("%q: %s", c, text))
				}
			}
			line := "{" + strings.Join(fields, ", ") + "}"
			if rapid.IntRange(0, 29).Draw(t, "cut") == 0 {
				line = line[:len(line)/2]
			}
			lines = append(lines, line)
		}
		expect.OK(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
		tab, err := readTable(path)
		if err != nil {
			t.Skip(err)
		}
		for _, c := range tab.columns {
			if len(c.texts) != tab.records {
				t.Fatalf("column %s has %d texts of %d records", c.name, len(c.texts), tab.records)
			}
		}
		_, _ = Draft(path)
	})
}
