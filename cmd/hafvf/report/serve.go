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
	maxReaders = 100 // of events, at a time
	// rest is the least time between two pages that are made: readers in between wait, and share one.
	rest = 500 * time.Millisecond
	// gather is how long news wait for others, to be sent together.
	gather = 100 * time.Millisecond
	// beat is how often readers hear of the facts.
	beat = 2 * time.Second
	// stuck is how long a reader may take nothing.
	stuck = 10 * time.Second
)

// rendered is the page as it was last made.
type rendered struct {
	mu      sync.Mutex
	version int64
	at      time.Time
	html    []byte
}

// Handler serves the page at /, its incidents as text at /incidents, and news as server-sent events
// at /events. It is for a listener of that host. It refuses requests that a page of another site
// makes, also one whose name leads to the listener's address: Host has to be the listener's,
// localhost or an IP address.
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

// refusal says why a request is not answered, and is empty if it is.
func refusal(r *http.Request, host string) string {
	// Names have no case, and may end with a dot.
	to := strings.TrimSuffix((&url.URL{Host: r.Host}).Hostname(), ".")
	if _, err := netip.ParseAddr(to); err != nil && !strings.EqualFold(to, "localhost") && !strings.EqualFold(to, host) {
		return "this Host is refused: ask by the address of --listen, by localhost or by an IP address"
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
			return "requests from other sites are refused"
		}
	}
	// A link from elsewhere may lead here.
	if site := r.Header.Get("Sec-Fetch-Site"); (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
		return "requests from other sites are refused"
	}
	return ""
}

// html is the page with all that had come when it was called, and perhaps more.
func (l *Live) html(ctx context.Context) ([]byte, error) {
	_, version, _ := l.since(math.MaxInt64)
	l.page.mu.Lock()
	defer l.page.mu.Unlock()
	if wait := rest - time.Since(l.page.at); wait > 0 {
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
	l.page.html, l.page.version, l.page.at = b.Bytes(), version, time.Now()
	return l.page.html, nil
}

// text writes the incidents for a terminal.
func (l *Live) text(to http.ResponseWriter) {
	to.Header().Set("Content-Type", "text/plain; charset=utf-8")
	p, _ := l.Page()
	fmt.Fprintf(to, "hafvf%s, since %s: %s, %d open; %s on %d of %s\n", strings.TrimSuffix(" of "+p.Config, " of "), p.Stamp(p.Live.Since),
		message.Count(p.IncidentCount, "incident", "incidents"), p.OpenCount, message.Count(p.Alarms, "alarm", "alarms"), p.Alarmed, message.Count(p.Keys, "key", "keys"))
	for i := range p.Incidents {
		one := &p.Incidents[i]
		state, page := "closed", "no page"
		if one.Open {
			state = "open"
		}
		if one.Page {
			page = "page"
		}
		fmt.Fprintf(to, "%s  %-6s  %-7s  score %s  %s\n", p.Stamp(one.Start), state, page, number(one.Score), one.Message) // whose keys are printable
	}
	if p.IncidentsLeft > 0 {
		fmt.Fprintf(to, "%s not shown\n", message.Count(p.IncidentsLeft, "more is", "more are"))
	}
	for _, note := range p.Notes {
		fmt.Fprintln(to, note)
	}
}

// news is an alarm or an incident as an event tells it.
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

// eventOf is a server-sent event.
func eventOf(name string, data any) []byte {
	text, _ := json.Marshal(data) // of numbers that are finite, and of text
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", name, text)
}

// events sends what a run raises from now on, and every two seconds its state. A reader that is too
// slow misses some: the version in the state tells it.
func (l *Live) events(w http.ResponseWriter, r *http.Request) {
	defer l.readers.Add(-1)
	if l.readers.Add(1) > maxReaders {
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d readers follow the events already", maxReaders), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	to := http.NewResponseController(w)
	to.SetReadDeadline(time.Time{}) // the server's is for requests
	_, version, changed := l.since(math.MaxInt64)
	status := func() {
		w.Write(eventOf("state", struct {
			Version string `json:"version"`
			Facts   []Fact `json:"facts"`
		}{l.name(version), l.Facts()}))
	}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	status()
	for ended := false; ; {
		to.SetWriteDeadline(time.Now().Add(stuck)) // and of what is written next
		if to.Flush() != nil || ended {
			return
		}
		select {
		case <-changed:
			select {
			case <-time.After(gather):
			case <-l.ended:
			}
			var all [][]byte
			all, version, changed = l.since(version)
			to.SetWriteDeadline(time.Now().Add(stuck))
			w.Write(bytes.Join(all, nil))
		case <-tick.C:
			to.SetWriteDeadline(time.Now().Add(stuck))
			status()
		case <-l.ended:
			w.Write(eventOf("end", struct{}{}))
			ended = true
		case <-r.Context().Done():
			return
		}
	}
}
