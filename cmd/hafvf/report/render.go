package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"hafvf/cmd/hafvf/output"
	"hafvf/internal/atomicfile"
	"hafvf/internal/message"
)

//go:embed page.html page.css page.js assets/uPlot.iife.min.js assets/uPlot.min.css assets/LICENSE
var files embed.FS

// asset returns the text of an embedded file.
func asset(name string) string {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(err) // impossible: go:embed includes the file
	}
	return string(b)
}

var (
	style = template.CSS(asset("assets/uPlot.min.css") + asset("page.css"))
	// The licence replaces the first comment, which contains a URL.
	chart  = template.JS("/*! uPlot 1.6.32\n\n" + asset("assets/LICENSE") + "*/\n" + asset("assets/uPlot.iife.min.js")[strings.Index(asset("assets/uPlot.iife.min.js"), "*/")+len("*/\n"):])
	script = template.JS(asset("page.js"))
	page   = template.Must(template.New("page.html").Funcs(template.FuncMap{
		"number":  number,
		"signed":  signed,
		"grouped": grouped,
		"count":   counted,
		"span":    span,
		"percent": output.Percent,
		"list":    message.List,
	}).ParseFS(files, "page.html"))
)

// policy is the Content-Security-Policy of the page: it runs only its two scripts, and loads nothing.
var policy = fmt.Sprintf("default-src 'none'; script-src %s %s; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'", hashOf(chart), hashOf(script))

// livePolicy also permits requests to the page's own server.
var livePolicy = policy + "; connect-src 'self'"

func hashOf(script template.JS) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Write writes the page as HTML that needs no other file. A page of a running run requests updates from its server.
func (p *Page) Write(w io.Writer) error {
	allowed := policy
	if p.Live != nil {
		allowed = livePolicy
	}
	return page.Execute(w, struct {
		*Page
		Style         template.CSS
		Chart, Script template.JS
		Policy        string
	}{p, style, chart, script, allowed})
}

// WriteFile writes the page to a file, and returns its size in bytes. An existing file is replaced only by a complete
// one.
func (p *Page) WriteFile(path string) (int, error) {
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return 0, err
	}
	return b.Len(), atomicfile.Write(path, b.Bytes())
}

// Raises reports whether the page shows alerts or estimates. It is false for a page of smoothed sessions only.
func (p *Page) Raises() bool { return p.Sessions == nil || p.Alerts > 0 || p.Estimates > 0 }

// Stamp formats a time in the page's zone.
func (p *Page) Stamp(t time.Time) string { return t.In(p.Zone).Format(time.RFC3339) }

// Time returns a time element: t in the page's zone, with t in UTC as its attributes. A zero t is "–".
func (p *Page) Time(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	utc := t.UTC().Format(time.RFC3339)
	return template.HTML(`<time datetime="` + utc + `" title="` + utc + `">` + p.Stamp(t) + `</time>`)
}

// signed formats v with its sign.
func signed(v float64) string {
	s := number(v)
	switch {
	case strings.HasPrefix(s, "-"):
		return "−" + s[1:]
	case v > 0:
		return "+" + s
	}
	return s
}

// counted returns n with a noun, in a data element with the plain number.
func counted(n any, singular, plural string) template.HTML {
	digits := fmt.Sprint(n)
	if digits != "1" {
		singular = plural
	}
	return template.HTML(fmt.Sprintf(`<data value="%s">%s</data> %s`, digits, grouped(n), template.HTMLEscapeString(singular)))
}

// span formats the time from start to end.
func span(start, end time.Time) string {
	d := end.Sub(start)
	switch {
	case d >= 48*time.Hour:
		return message.Count(int(d.Hours()/24+.5), "day", "days")
	case d >= 2*time.Hour:
		return message.Duration(d.Round(time.Minute))
	}
	return message.Duration(d.Round(time.Second))
}
