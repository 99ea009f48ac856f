//go:build unix

package prometheus_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/klauspost/compress/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"hafvf/internal/testing/expect"
	"hafvf/internal/testing/promtest"
)

const (
	jobs      = 5 // the last one has counters
	instances = 40
	racks     = 8       // four in each of two zones
	day       = 24 * 60 // minutes
)

// onCallQuery selects latencies and rates, as one config watches one query.
const onCallQuery = "latency or rate(requests_total[5m])"

// A planted is a cause. make returns the changed value of a series, including noise, at a minute after its
// beginning.
type planted struct {
	name            string
	job, from, upto int // instances of the job; a negative job means all jobs
	start, lasts    int // minutes since the first point
	make            func(usual, noisy float64, minute int) float64
}

func times(f float64) func(usual, noisy float64, minute int) float64 {
	return func(_, noisy float64, _ int) float64 { return f * noisy }
}

var causes = []planted{
	{"outage of rack r3 that is open at the end", -1, 10, 15, 0, 7 * day, times(1.5)}, // from 20 minutes before the last point
	{"cause", 0, 0, instances, 8*day + 10*60, 180, times(1.5)},
	{"second cause", 1, 0, instances, 8*day + 10*60 + 19, 180, times(1.5)},
	{"outage that returns", 2, 0, instances, 9*day + 14*60, 20, times(3)},
	{"storm in zone z2", -1, instances / 2, instances, stormStart, 60, func(_, noisy float64, _ int) float64 { return noisy * gust() }},
	{"outage of svc2 in the storm, in both zones", 2, 0, instances, stormStart + 6, 15, times(4)},
	{"outage of rack r2 in the storm, outside of its zone", -1, 5, 10, stormStart + 13, 12, times(4)},
	{"outage of rack r6 in the storm, in its zone", -1, 25, 30, stormStart + 16, 20, times(4)},
	{"Prometheus is away", -1, 0, 0, awayStart, 6, nil},
	{"leak", 3, 7, 8, 10 * day, 36 * 60, func(_, noisy float64, minute int) float64 { return noisy * (1 + float64(minute)/(36*60)) }},
	{"flatline", 3, 11, 12, 12*day + 9*60, 12 * 60, func(float64, float64, int) float64 { return 175 }},
	{"instance gone", 3, 20, 21, 13*day + 6*60, 7 * day, func(float64, float64, int) float64 { return math.NaN() }},
	{"counter reset", jobs - 1, 5, 6, 13*day + 12*60, 1, nil},
}

const (
	awayStart  = 10*day + 16*60 // the first of six minutes in which Prometheus is down and has no points
	stormStart = 11*day + 10*60
)

// gust is the factor of a storm for one value. It is above 1 in 70 % of the minutes, and 1.21 on average.
func gust() float64 {
	if gusts.Float64() < .7 {
		return 1 + .6*gusts.Float64()
	}
	return 1
}

var gusts = rand.New(rand.NewPCG(87, 0))

// has reports whether the series key belongs to the cause.
func (p *planted) has(key string) bool {
	m := labelsOf.FindStringSubmatch(key)
	if m == nil || p.job >= 0 && m[2] != strconv.Itoa(p.job) {
		return false
	}
	i, _ := strconv.Atoi(m[1])
	return p.from <= i && i < p.upto
}

var labelsOf = regexp.MustCompile(`instance="i(\d+)",job="svc(\d)"`)

// value returns the value of an instance at a minute; NaN means no point. The usual value has a daily and a weekly
// rhythm: it falls for four hours on the evening before a weekend, and rises at its end.
func value(job, instance, minute int, noise *rand.Rand) float64 {
	turn := 2 * math.Pi * float64(minute%day) / day
	usual := float64(80+40*job+instance) * (1 + .2*math.Sin(turn+float64(job)))
	const ramp = 240
	ahead := (minute + ramp - 5*day + 7*day) % (7 * day) // minutes since the beginning of the weekend's ramp
	usual *= 1 - .15*min(1, float64(ahead)/ramp, max(0, float64(2*day-ahead)/ramp+1))
	scatter := .02 + .08*float64(instance*7%instances)/instances
	v := usual * (1 + scatter*noise.NormFloat64())
	for _, c := range causes {
		elapsed := minute - c.start
		if c.upto-c.from > 1 {
			elapsed -= instance % 3 // the series of a cause begin within three minutes
		}
		if c.make != nil && (job == c.job || c.job < 0) && c.from <= instance && instance < c.upto && 0 <= elapsed && elapsed < c.lasts {
			v = c.make(usual, v, elapsed)
		}
	}
	return v
}

// labels returns the labels of a series, in the order of their names.
func labels(job, instance int) [][2]string {
	metric := "latency"
	if job == jobs-1 {
		metric = "requests_total"
	}
	rack := instance * racks / instances
	return [][2]string{{"__name__", metric}, {"instance", fmt.Sprint("i", instance)}, {"job", fmt.Sprint("svc", job)},
		{"rack", fmt.Sprint("r", 1+rack)}, {"zone", fmt.Sprint("z", 1+rack*2/racks)}}
}

// plant writes the series to a Prometheus, one point per minute, and returns the number of points.
func plant(b *testing.B, url string, begin time.Time, minutes int) (points int) {
	const perRequest = 50 // minutes
	message := func(b []byte, field protowire.Number, m []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), m)
	}
	var names [jobs][instances][]byte
	var noise [jobs][instances]*rand.Rand
	var counters [instances]float64
	var stopped [jobs][instances]bool
	// stale is the value with which Prometheus ends a series that is not scraped any more.
	stale := math.Float64frombits(0x7ff0000000000002)
	for job := range jobs {
		for i := range instances {
			for _, label := range labels(job, i) {
				l := message(message(nil, 1, []byte(label[0])), 2, []byte(label[1]))
				names[job][i] = message(names[job][i], 1, l)
			}
			noise[job][i] = rand.New(rand.NewPCG(55, uint64(job*instances+i)))
		}
	}
	reset := causes[len(causes)-1]
	for first := 0; first <= minutes; first += perRequest {
		var request []byte
		for job := range jobs {
			for i := range instances {
				series := slices.Clone(names[job][i])
				for m := first; m < min(first+perRequest, minutes+1); m++ {
					v := value(job, i, m, noise[job][i])
					if m == minutes { // the last value would be repeated for five minutes
						v = math.NaN()
					}
					if job == reset.job {
						if counters[i] += 60 * v; i == reset.from && m == reset.start {
							counters[i] = 30 * v
						}
						v = counters[i]
					}
					if awayStart <= m && m < awayStart+6 { // the counters continue
						continue
					}
					switch ended := stopped[job][i]; {
					case !math.IsNaN(v):
						points++
					case ended:
						continue
					default:
						v, stopped[job][i] = stale, true
					}
					point := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(v))
					timestamp := begin.Add(time.Duration(m) * time.Minute).UnixMilli()
					point = protowire.AppendVarint(protowire.AppendTag(point, 2, protowire.VarintType), uint64(timestamp))
					series = message(series, 2, point)
				}
				request = message(request, 1, series)
			}
		}
		answer := expect.Get(http.Post(url+"/api/v1/write", "application/x-protobuf", bytes.NewReader(snappy.Encode(nil, request))))(b)
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode/100 != 2 {
			b.Fatalf("Prometheus takes no points: %s %s", answer.Status, text)
		}
	}
	return points
}

// A report is a reported alarm, incident or digest.
type report struct {
	Key, Kind, ID, State, Group, Message, Incident string
	Page                                           bool
	Labels                                         map[string]string
	Time, Start                                    time.Time
	Alarms, Alarmed                                int
	Members                                        []struct {
		Key  string
		Time time.Time
	}
}

// matches reports whether the record belongs to a cause: its key or, for an incident, half of the named members.
func (r *report) matches(p *planted, begin time.Time) bool {
	start := begin.Add(time.Duration(p.start) * time.Minute)
	end := start.Add(time.Duration(p.lasts)*time.Minute + 3*time.Hour)
	matches := func(key string, t time.Time) bool { return p.has(key) && !t.Before(start) && t.Before(end) }
	n := 0
	for _, m := range r.Members {
		if matches(m.Key, m.Time) {
			n++
		}
	}
	return n > 0 && (r.Kind == "digest" || 2*n >= len(r.Members)) || matches(r.Key, r.Time)
}

// what returns the kind of a message for the tables.
func (r *report) what() string {
	switch {
	case r.Kind == "incident" && r.Page && r.State != "closed":
		return "page " + r.State
	case r.Kind == "incident":
		return "incident " + r.State
	case r.Page:
		return "page " + r.Kind
	}
	return r.Kind
}

// A listener stores the posts that it receives.
type listener struct {
	mu    sync.Mutex
	heard []json.RawMessage
}

func (l *listener) hear(body []byte) {
	var records []json.RawMessage
	json.Unmarshal(body, &records) // other bodies are not from hafvf
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, records...)
}

// BenchmarkOnCall has the program watch two weeks of 200 series of a real Prometheus, with causes in the second
// week. Then it replaces the Alertmanager. It prints what a webhook, an Alertmanager and a file received for each cause,
// and when the new Alertmanager had the open alerts. It fails if an alarm is lost, or an open alert is not repeated.
//
//	go test ./internal/testing/e2e/prometheus -run - -bench OnCall -benchtime 1x
func BenchmarkOnCall(b *testing.B) {
	for b.Loop() {
		onCall(b)
	}
}

func onCall(b *testing.B) {
	now := time.Now().UTC().Truncate(time.Minute)
	begin := now.Truncate(24*time.Hour).AddDate(0, 0, -14) // midnight: the causes have times of day
	server := promtest.Prometheus(b, "storage: {tsdb: {out_of_order_time_window: 15d}}\n")
	manager := newReplaceable(b)
	started := time.Now()
	minutes := int(now.Sub(begin)/time.Minute) + 5
	causes[0].start = minutes - 20
	points := plant(b, server.URL, begin, minutes)
	wrote := time.Since(started)

	var hook, managerPosts listener
	webhook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		hook.hear(body)
	}))
	defer webhook.Close()
	// A proxy records posts for the Alertmanager, which shows only active alerts.
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer, err := http.Post(manager.URL+r.URL.Path, "application/json", bytes.NewReader(body))
		if err != nil || answer.StatusCode != http.StatusOK {
			b.Errorf("the Alertmanager refuses alerts: %v, %v\n%s", err, answer, body)
			return
		}
		answer.Body.Close()
		managerPosts.hear(body)
	}))
	defer proxy.Close()

	dir := b.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	code, config, output := program.Run(b, dir, "", "init", server.URL, "--query", onCallQuery)
	fmt.Printf("init exits with %d: %s\n%s\n", code, output, config)
	expect.OK(b, os.WriteFile(path("web.yaml"), []byte(config), 0o600))
	address := freeAddress(b)
	args := []string{"run", path("web.yaml"), "--listen", address}
	set := func(s string) { args = append(args, "--set", s) }
	set("state=" + path("states"))
	set("sink=none")
	set("source.prometheus.start=" + begin.Format(time.RFC3339))
	receivers := fmt.Sprintf(`{webhook: {url: %q}, max_age: none, digest: 24h}, {alertmanager: {url: %q, repeat: 2s}, max_age: none}, {jsonl: {path: %q}, digest: 24h}`, webhook.URL, proxy.URL, path("alerts.jsonl"))
	set("alerts=[" + receivers + "]")
	for key, text := range map[string]string{"silence": "true", "incidents": "true"} {
		if !regexp.MustCompile(`(?m)^` + key + ":").MatchString(config) {
			fmt.Printf("init writes no %s: %[1]s=%s\n", key, text)
			set(key + "=" + text)
		}
	}
	started = time.Now()
	run := program.Start(b, nil, args...)
	read := 0
	for previous := -1; read != previous || read < points-points/100; time.Sleep(2 * time.Second) {
		previous, read = read, metric(address, "hafvf_records_in_total")
		if time.Since(started) > 15*time.Minute {
			b.Fatalf("%d of %d points are read\n%s", read, points, run.Log())
		}
	}
	caughtUp := time.Since(started)
	manager.replaceAll(b)
	run.Signal(syscall.SIGINT)
	run.Ends(b, 0)
	fmt.Printf("%d points written in %v, %d read in %v\n%s\n", points, wrote.Round(time.Second), read, caughtUp.Round(time.Second), run.Log())

	file := records(b, strings.Split(strings.TrimSpace(string(expect.Get(os.ReadFile(path("alerts.jsonl")))(b))), "\n"))
	hooked := records(b, hook.heard)
	printTables(file, hooked, alertsOf(b, managerPosts.heard, file), begin)
	nothingLost(b, file, hooked, begin)
}

// printTables prints what a file, a webhook and an Alertmanager received, by cause and by day.
func printTables(file, hooked, toManager []report, begin time.Time) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for i := range causes {
		c := &causes[i]
		fmt.Fprintf(w, "\n%s, svc%d i%d…i%d, %s, for %v\n", c.name, c.job, c.from, c.upto-1, clock(begin, begin.Add(time.Duration(c.start)*time.Minute)), time.Duration(c.lasts)*time.Minute)
		tellOf(w, "file", file, begin, c)
		tellOf(w, "webhook", hooked, begin, c)
		tellOf(w, "Alertmanager", toManager, begin, c)
	}
	fmt.Fprintf(w, "\nof no cause\n")
	tellOf(w, "webhook", hooked, begin, nil)
	byDay(w, "webhook", hooked, begin)
	byDay(w, "Alertmanager", toManager, begin)
	byDay(w, "file", file, begin)
	w.Flush()
	fmt.Print(table.String())
}

// freeAddress returns a loopback address on which nothing listens.
func freeAddress(testing.TB) string {
	s := httptest.NewServer(nil)
	defer s.Close()
	return strings.TrimPrefix(s.URL, "http://")
}

// metric returns the value of the program's metric without labels, or 0 if it is missing.
func metric(address, name string) int {
	answer, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			v, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			return int(v)
		}
	}
	return 0
}

func records[S ~string | ~[]byte](b *testing.B, lines []S) (list []report) {
	for _, line := range lines {
		var r report
		expect.OK(b, json.Unmarshal([]byte(line), &r))
		list = append(list, r)
	}
	return list
}

// alertsOf returns the records of the file that an Alertmanager received.
func alertsOf(b *testing.B, lines []json.RawMessage, file []report) (list []report) {
	name := func(kind, id, message string) [3]string {
		if kind == "digest" { // without the alerts that the receiver had received directly
			message = ""
		}
		return [3]string{kind, id, message}
	}
	byName, posted := map[[3]string]report{}, map[string]bool{}
	for _, r := range file {
		byName[name(r.Kind, r.ID, r.Message)] = r
	}
	for _, line := range lines {
		var a struct {
			Labels, Annotations map[string]string
			StartsAt            time.Time
		}
		expect.OK(b, json.Unmarshal(line, &a))
		kind, id, message := a.Labels["kind"], a.Annotations["id"], a.Annotations["summary"]
		r, found := byName[name(kind, id, message)]
		if !found { // the end of an alarm, or an alert that the file lacks
			r = report{Key: a.Labels["key"], Kind: kind + ", not in the file", ID: id, Message: message, Time: a.StartsAt}
		}
		if post := fmt.Sprint(a.Labels, id, message); !posted[post] { // not a repeat
			posted[post], list = true, append(list, r)
		}
	}
	return list
}

// clock formats t as the day since the first point, from 0, and the time of day.
func clock(begin, t time.Time) string {
	return fmt.Sprintf("d%02d %s", int(t.Sub(begin).Hours())/24, t.UTC().Format("15:04"))
}

// tellOf prints the records of a cause or, if c is nil, the records without a cause: all records of incidents, and
// the first of each other kind.
func tellOf(w io.Writer, receiver string, list []report, begin time.Time, c *planted) {
	start := begin
	if c != nil {
		start = begin.Add(time.Duration(c.start) * time.Minute)
	}
	var order []string
	firsts, counts := map[string]report{}, map[string]int{}
	ids := map[string]bool{} // of incidents; later records may name other members
	for _, r := range list {
		matches := c != nil && (r.matches(c, begin) || ids[r.ID])
		if c == nil {
			matches = !slices.ContainsFunc(causes, func(c planted) bool { return r.matches(&c, begin) })
		} else if matches && r.Kind == "incident" {
			ids[r.ID] = true
		}
		kind := r.what()
		if r.Kind == "incident" {
			kind += r.ID + r.Message
		}
		if counts[kind]++; matches && firsts[kind].Kind == "" {
			firsts[kind], counts[kind] = r, 1
			order = append(order, kind)
		} else if !matches {
			counts[kind]--
		}
	}
	if len(order) == 0 {
		fmt.Fprintf(w, "  %s\t–\tnothing\n", receiver)
	}
	for _, kind := range order {
		r, more := firsts[kind], ""
		if n := counts[kind]; n > 1 {
			more = fmt.Sprintf(" (and %d more)", n-1)
		}
		after, labels := r.Time.Sub(start).Minutes(), strings.TrimPrefix(fmt.Sprint(r.Labels), "map")
		message, _, _ := strings.Cut(r.Message, "\n") // a digest without its alarms
		fmt.Fprintf(w, "  %s\t%s\t%+.0f min\t%s%s\t%s\t%s\n", receiver, clock(begin, r.Time), after, r.what(), more, labels, message)
	}
}

// byDay prints the number of records of each kind on each day.
func byDay(w io.Writer, receiver string, list []report, begin time.Time) {
	counts := map[string]map[int]int{}
	last := 0
	for _, r := range list {
		d := int(r.Time.Sub(begin).Hours()) / 24
		if last = max(last, d); counts[r.what()] == nil {
			counts[r.what()] = map[int]int{}
		}
		counts[r.what()][d]++
	}
	fmt.Fprintf(w, "\n%s: %d records\nday\t", receiver, len(list))
	for d := range last + 1 {
		fmt.Fprintf(w, "%d\t", d)
	}
	fmt.Fprintln(w, "all")
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, "%s\t", kind)
		sum := 0
		for d := range last + 1 {
			sum += counts[kind][d]
			fmt.Fprintf(w, "%d\t", counts[kind][d])
		}
		fmt.Fprintln(w, sum)
	}
}

// nothingLost checks that each alarm of the file is in an incident or in the digest of its day. A record of an
// incident names at most 20 members and counts the others.
func nothingLost(b *testing.B, file, hooked []report, begin time.Time) {
	type alarm struct {
		key       string
		unixMilli int64
	}
	members, unnamed := map[alarm]bool{}, 0
	largest, paged := map[string]report{}, map[string]bool{} // by incident
	for _, r := range hooked {
		paged[r.ID] = paged[r.ID] || r.Kind == "incident"
	}
	digests, last := map[time.Time]int{}, begin
	for _, r := range file {
		switch r.Kind {
		case "incident":
			for _, m := range r.Members {
				members[alarm{m.Key, m.Time.UnixMilli()}] = true
			}
			if r.Alarmed >= largest[r.ID].Alarmed {
				largest[r.ID] = r
			}
		case "digest":
			digests[r.Start], last = r.Alarms, r.Time
		}
	}
	for _, r := range largest {
		unnamed += r.Alarmed - len(r.Members)
	}
	alarms, joined, quiet, due := 0, 0, 0, 0
	alone := map[time.Time]int{}
	for _, r := range file {
		if !slices.Contains([]string{"novelty", "change", "silent"}, r.Kind) {
			continue
		}
		alarms++
		switch _, found := largest[r.Incident]; {
		case r.Incident != "" && !found:
			b.Errorf("the alarm %s of %s is in the incident %s, which the file does not have", r.ID, r.Key, r.Incident)
		case r.Incident != "":
			joined++
			if !paged[r.Incident] {
				quiet++
			}
		case members[alarm{r.Key, r.Time.UnixMilli()}]:
			joined++
		case !r.Time.Before(last):
			due++
		default:
			alone[r.Time.Truncate(24*time.Hour)]++
		}
	}
	// An alarm may be in a digest and, later, in an incident that began before midnight.
	inDigests, twice := 0, 0
	for day, n := range digests {
		inDigests += n
		twice += max(0, n-alone[day])
	}
	for day, n := range alone {
		if n > digests[day]+unnamed {
			b.Errorf("%s: %d alarms in the digest, and %d in no incident that names them; %d members are not named", day.Format(time.DateOnly), digests[day], n, unnamed)
		}
	}
	fmt.Printf("\n%d alarms in the file: %d in incidents, of which %d are in those that the webhook was not told of; %d in digests (%d of both), %d after the last digest; %d members of incidents are not named\n", alarms, joined, quiet, inDigests, twice, due, unnamed)
}
