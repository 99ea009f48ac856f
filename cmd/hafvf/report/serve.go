package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/hafvf/incidents"
	"hafvf/internal/message"
)

const (
	maxReaders = 100 // concurrent readers of events
	// minRenderInterval is the minimum time between two renderings of the page. Requests in between wait and share
	// one page.
	minRenderInterval = 500 * time.Millisecond
	// batchDelay is the time that events wait, to be sent in one batch.
	batchDelay = 100 * time.Millisecond
	// statePeriod is the period of the state event.
	statePeriod = 2 * time.Second
	// writeTimeout is the maximum time that a write to a reader may take.
	writeTimeout = 10 * time.Second
)

// rendered is the page at its last rendering.
type rendered struct {
	mu      sync.Mutex
	version int64
	time    time.Time
	html    []byte
}

// Handler serves the page at /, its incidents as text at /incidents, and server-sent events at /events. host is the
// host of the listener. Handler refuses requests from pages of other sites, and requests whose Host is not host,
// localhost or an IP address: such a name could point to the listener's address.
func (l *Live) Handler(host string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if accept := r.Header.Get("Accept"); strings.Contains(accept, "text/plain") && !strings.Contains(accept, "text/html") {
			l.text(w)
			return
		}
		html, err := l.html(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Security-Policy", livePolicy+"; frame-ancestors 'none'")
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(html)
	})
	mux.HandleFunc("GET /incidents", func(w http.ResponseWriter, _ *http.Request) { l.text(w) })
	mux.HandleFunc("GET /events", l.events)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := refusal(r, host); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	})
}

// refusal returns the reason to refuse a request, or "".
func refusal(r *http.Request, host string) string {
	// Host names ignore case, and may end with a dot.
	name := strings.TrimSuffix((&url.URL{Host: r.Host}).Hostname(), ".")
	if _, err := netip.ParseAddr(name); err != nil && !strings.EqualFold(name, "localhost") && !strings.EqualFold(name, host) {
		return "Host refused: use the address of --listen, localhost or an IP address"
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return "requests from other sites are refused"
		}
	}
	// Links from other sites may lead here.
	if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		return "requests from other sites are refused"
	}
	return ""
}

// html returns a page with at least the events up to the call. It waits if the last page is too recent.
func (l *Live) html(ctx context.Context) ([]byte, error) {
	_, version, _ := l.newsAfter(math.MaxInt64)
	l.page.mu.Lock()
	defer l.page.mu.Unlock()
	if wait := minRenderInterval - time.Since(l.page.time); wait > 0 {
		if l.page.version >= version {
			return l.page.html, nil
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p, version := l.Page()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return nil, err
	}
	l.page.html, l.page.version, l.page.time = b.Bytes(), version, time.Now()
	return l.page.html, nil
}

// text writes the incidents and the open alarms as plain text.
func (l *Live) text(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	p, _ := l.Page()
	fmt.Fprintf(w, "hafvf%s, since %s: %s, %d open; %s on %d of %s\n", strings.TrimSuffix(" of "+p.Config, " of "), p.Stamp(p.Live.Since),
		message.Count(p.IncidentCount, "incident", "incidents"), p.OpenCount, message.Count(p.Alarms, "alarm", "alarms"), p.Alarmed, message.Count(p.Keys, "key", "keys"))
	for i := range p.Incidents {
		incident := &p.Incidents[i]
		state, page := "closed", "no page"
		if incident.Open {
			state = "open"
		}
		if incident.Page {
			page = "page"
		}
		fmt.Fprintf(w, "%s  %-6s  %-7s  score %s  %s\n", p.Stamp(incident.Start), state, page, number(incident.Score), incident.Message) // keys in messages are printable
	}
	if p.IncidentsLeft > 0 {
		fmt.Fprintf(w, "%s not shown\n", message.Count(p.IncidentsLeft, "more is", "more are"))
	}
	for i := range p.Rows {
		if r := &p.Rows[i]; r.Open {
			fmt.Fprintf(w, "%s  open    alarm    score %s  %s\n", p.Stamp(r.Time), number(r.Score), r.Message)
		}
	}
	for _, note := range p.Notes {
		fmt.Fprintln(w, note)
	}
}

// news is the data of the event of an alarm or an incident.
type news struct {
	Key      string        `json:"key"`
	Time     *time.Time    `json:"time"`
	Kind     string        `json:"kind"`
	ID       string        `json:"id"`
	Score    output.Scalar `json:"score"`
	Size     output.Scalar `json:"size,omitzero"`
	Incident string        `json:"incident,omitempty"`
	State    string        `json:"state,omitempty"`
	Page     *bool         `json:"page,omitempty"`
	Message  string        `json:"message"`
}

func newsOf(a *output.Alert) (kind string, n news) {
	n = news{Key: a.Key, Kind: a.Kind, ID: a.ID, Score: a.Score, Size: a.Size, Incident: a.Incident, State: a.State, Message: a.Message}
	if !a.Time.IsZero() {
		n.Time = &a.Time
	}
	if a.Kind == incidents.Kind {
		n.Page = &a.Page
		return "incident", n
	}
	return "alarm", n
}

// eventOf encodes a server-sent event.
func eventOf(name string, data any) []byte {
	text, _ := json.Marshal(data) // cannot fail: only text and finite numbers
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, text)
}

// events streams the alarms and incidents from now on, and the state every statePeriod. A slow reader misses events;
// the version in the state shows it.
func (l *Live) events(w http.ResponseWriter, r *http.Request) {
	defer l.readers.Add(-1)
	if l.readers.Add(1) > maxReaders {
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("too many readers: at most %d may follow the events", maxReaders), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	controller := http.NewResponseController(w)
	controller.SetReadDeadline(time.Time{}) // the server's deadline is for requests
	_, version, changed := l.newsAfter(math.MaxInt64)
	status := func() {
		w.Write(eventOf("state", struct {
			Version string `json:"version"`
			Facts   []Fact `json:"facts"`
		}{l.name(version), l.Facts()}))
	}
	tick := time.NewTicker(statePeriod)
	defer tick.Stop()
	status()
	for ended := false; ; {
		controller.SetWriteDeadline(time.Now().Add(writeTimeout)) // also for the next write
		if controller.Flush() != nil || ended {
			return
		}
		select {
		case <-changed:
			select {
			case <-time.After(batchDelay):
			case <-l.ended:
			}
			var batch [][]byte
			batch, version, changed = l.newsAfter(version)
			controller.SetWriteDeadline(time.Now().Add(writeTimeout))
			w.Write(bytes.Join(batch, nil))
		case <-tick.C:
			controller.SetWriteDeadline(time.Now().Add(writeTimeout))
			status()
		case <-l.ended:
			w.Write(eventOf("end", struct{}{}))
			ended = true
		case <-r.Context().Done():
			return
		}
	}
}
