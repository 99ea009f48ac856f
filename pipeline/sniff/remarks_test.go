package sniff

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

// TestRemarks checks each remark with an input that triggers it, and with a similar valid input that does not.
func TestRemarks(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const records = 240
	hour := func(i int) string { return start.Add(time.Duration(i) * time.Hour).Format(time.RFC3339) }
	rows := func(header string, row func(i int) string) []string {
		lines := []string{header + "\n"}
		for i := range records {
			lines = append(lines, row(i)+"\n")
		}
		return lines
	}
	x := func() float64 { return 20 + rng.NormFloat64() }
	plain := func(i int) string { return fmt.Sprintf("%s,k%d,%.3f", hour(i/2), i%2, x()) }
	// except replaces the plain rows for which when is true.
	except := func(when func(i int) bool, row func(i int) string) []string {
		return rows("time,key,x", func(i int) string {
			if when(i) {
				return row(i)
			}
			return plain(i)
		})
	}
	local := func(first time.Time, minutes func(i int) int) []string {
		return rows("time,x", func(i int) string {
			return fmt.Sprintf("%s,%.3f", first.Add(time.Duration(minutes(i))*time.Minute).Format("2006-01-02 15:04"), x())
		})
	}
	autumn := time.Date(2025, 10, 25, 0, 0, 0, 0, time.UTC)
	const normalModel = "{family: normal}"
	for _, c := range []struct {
		remark   string // part of the remark
		model    string // model of the config to inspect; empty for a draft
		triggers []string
		clean    []string
	}{
		{"of the records are rejected, such as", normalModel,
			except(func(i int) bool { return i%5 == 0 }, func(i int) string { return hour(i/2) + ",k,none" }),
			except(func(i int) bool { return i == 7 }, func(i int) string { return hour(i/2) + ",k,none" })},
		{"a part of the key may be missing; see key", normalModel, // late
			except(func(i int) bool { return i%10 == 0 }, func(i int) string { return fmt.Sprintf("%s,k0,%.3f", hour(i/2+200), x()) }),
			rows("time,key,x", plain)},
		{"times go back there", normalModel,
			except(func(i int) bool { return i > 150 }, func(i int) string { return strings.Replace(plain(i), "2026", "2006", 1) }),
			except(func(i int) bool { return i > 150 }, plain)},
		{"do not exist in the zone", "{family: normal, zone: Europe/Berlin, season: [24h]}",
			local(time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC), func(i int) int { return 10 * i }),
			local(time.Date(2026, 3, 26, 12, 0, 0, 0, time.UTC), func(i int) int { return 10 * i })},
		{"like clocks at the end of summer time", normalModel,
			local(autumn, func(i int) int { return 15*i - 60*(i/108) }),
			local(autumn.AddDate(0, 0, 2), func(i int) int { return 15 * i })},
		{"keys have one record, such as", normalModel,
			except(func(i int) bool { return i%3 == 0 }, func(i int) string { return fmt.Sprintf("%s,one%d,%.3f", hour(i/2), i, x()) }),
			rows("time,key,x", plain)},
		{"or they are duplicates", normalModel,
			rows("time,key,x", func(i int) string { return fmt.Sprintf("%s,k,%.3f", hour(i/3), x()) }),
			rows("time,key,x", func(i int) string { return fmt.Sprintf("%s,k,%.3f", hour(i), x()) })},
		{"far from all others: if it means a missing value", normalModel,
			except(func(i int) bool { return i%40 == 3 }, func(i int) string { return fmt.Sprintf("%s,k%d,-9999", hour(i/2), i%2) }),
			except(func(i int) bool { return i%40 == 3 }, func(i int) string { return fmt.Sprintf("%s,k%d,22", hour(i/2), i%2) })},
		{"rise and do not fall, like a counter", normalModel,
			except(func(i int) bool { return i%2 == 0 }, func(i int) string { return fmt.Sprintf("%s,k0,%d", hour(i/2), 10*i) }),
			rows("time,key,x", plain)},
		{"two counters may share the key", "{family: normal}, aggregate: {every: 6h, value: increase}",
			rows("time,key,x", func(i int) string { return fmt.Sprintf("%s,k,%d", hour(i), i%2*1000+i) }),
			rows("time,key,x", func(i int) string { return fmt.Sprintf("%s,k,%d", hour(i), i%24) })},
		{"two counters may share the key", "",
			rows("time,key,x", func(i int) string { return fmt.Sprintf("%s,k,%d", hour(i), i%2*1000+i) }),
			rows("time,key,x", func(i int) string { return fmt.Sprintf("%s,k,%d", hour(i), i%2*1000+i%3) })},
		{"count as missing in a column of numbers: values_as", "",
			except(func(i int) bool { return i%9 == 0 }, func(i int) string { return hour(i/2) + ",k0," + []string{"on", "off"}[i/9%2] }),
			rows("time,key,x", plain)},
		{"no key has the label", "{family: normal}, detect: true, incidents: {by: [rack]}",
			rows("time,key,x", func(i int) string { return fmt.Sprintf("%s,\"{job=\"\"a%d\"\"}\",%.3f", hour(i/2), i%2, x()) }),
			rows("time,key,x", func(i int) string { return fmt.Sprintf("%s,\"{rack=\"\"a%d\"\"}\",%.3f", hour(i/2), i%2, x()) })},
		{"set by a later exception than the first that matches", "{family: normal}, keys: [{match: 'k*', top: 0.5, levels: []}, {match: '*', model: {prior: {mu: 3}}}]",
			rows("time,key,x", plain), rows("time,key,x", func(i int) string { return strings.ReplaceAll(plain(i), "k", "a") })},
		{`column "x": -1.0 occurs next to only 0 and 1: if it means a missed trial, set missing: ["-1.0"]`, "",
			rows("key,x", func(i int) string {
				return fmt.Sprintf("k%d,%s", i%2, []string{"0.0", "1.0", "1.0", "0.0", "-1.0"}[i%5])
			}),
			rows("key,x", func(i int) string {
				return fmt.Sprintf("k%d,%s", i%2, []string{"0.0", "1.0", "2.0", "0.0", "-1.0"}[i%5])
			})},
		{"occurs among numbers, and is read as missing", "",
			except(func(i int) bool { return i%9 == 0 }, func(i int) string { return hour(i/2) + ",k0,broken" }),
			except(func(i int) bool { return i%9 == 0 }, func(i int) string { return hour(i/2) + ",k0,nan" })},
		{"the file is not UTF-8", "",
			except(func(i int) bool { return i%2 == 0 }, func(i int) string { return fmt.Sprintf("%s,K\xf6ln,%.3f", hour(i/2), x()) }),
			except(func(i int) bool { return i%2 == 0 }, func(i int) string { return fmt.Sprintf("%s,Köln,%.3f", hour(i/2), x()) })},
		{"no column of times was found", "",
			rows("key,x", func(i int) string { return fmt.Sprintf("k%d,%.3f", i%2, x()) }), rows("time,key,x", plain)},
		{"has the name of a time, and its texts", "",
			rows("time,key,x", func(i int) string { return fmt.Sprintf("moment %d,k%d,%.3f", i, i%2, x()) }), rows("time,key,x", plain)},
		{"fits them as well", "",
			rows("time,x", func(i int) string { return fmt.Sprintf("0%d/0%d/2026 %02d:00,%.3f", 1+i/48%9, 1+i/24%2, i%24, x()) }),
			rows("time,x", func(i int) string { return fmt.Sprintf("%02d/01/2026 %02d:00,%.3f", 10+i/24, i%24, x()) })},
		{"its numbers have several units", "",
			rows("time,x", func(i int) string { return fmt.Sprintf("%s,%.2f %s", hour(i), x(), []string{"kW", "W"}[i%2]) }),
			rows("time,x", func(i int) string { return fmt.Sprintf("%s,%.2f kW", hour(i), x()) })},
		{"the comma may separate thousands", "",
			rows("time;x", func(i int) string { return fmt.Sprintf("%s;%d,%03d", hour(i), 10+i%80, i%7*125) }),
			rows("time;x", func(i int) string { return fmt.Sprintf("%s;%d,%02d", hour(i), 10+i%80, i%7*12) })},
		{"in blocks: it may identify series", "",
			rows("time,part,x", func(i int) string { return fmt.Sprintf("%s,p%d,%.3f", hour(i), i/2, x()) }),
			rows("time,part,x", func(i int) string { return fmt.Sprintf("%s,p,%.3f", hour(i), x()) })},
	} {
		remarks := func(lines []string) []Remark {
			path := write(t, "in.csv", lines...)
			if c.model == "" {
				return expect.Get(Draft(path))(t).Remarks
			}
			key := "key: key, "
			if !strings.Contains(lines[0], "key") {
				key = "key: none, zone: " + map[bool]string{true: "Europe/Berlin", false: "UTC"}[strings.Contains(c.model, "Berlin")] + ", "
			}
			cfg := expect.Get(config.Parse("test.yaml", []byte("{model: "+c.model+", source: {csv: {"+key+"path: "+path+"}}}"), nil))(t)
			return expect.Get(Inspect(cfg))(t).Remarks
		}
		hasRemark := func(rs []Remark) bool {
			return slices.ContainsFunc(rs, func(r Remark) bool { return strings.Contains(r.String(), c.remark) })
		}
		if got := remarks(c.triggers); !hasRemark(got) {
			t.Errorf("no %q: %v", c.remark, got)
		}
		if got := remarks(c.clean); hasRemark(got) {
			t.Errorf("%q without cause: %v", c.remark, got)
		}
	}
}
