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

// asset is an embedded file.
func asset(name string) string {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(err) // go:embed has them
	}
	return string(b)
}

var (
	style = template.CSS(asset("assets/uPlot.min.css") + asset("page.css"))
	// The licence takes the place of the first comment, which names a place on the web.
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

// policy lets the page run its own two scripts, and load nothing.
var policy = fmt.Sprintf("default-src 'none'; script-src %s %s; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'", hashOf(chart), hashOf(script))

// livePolicy also lets the page ask where it came from.
var livePolicy = policy + "; connect-src 'self'"

func hashOf(script template.JS) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Write writes the page as HTML that needs no other file. A page that follows a run asks its server
// for what is new.
func (p *Page) Write(to io.Writer) error {
	allowed := policy
	if p.Live != nil {
		allowed = livePolicy
	}
	return page.Execute(to, struct {
		*Page
		Style         template.CSS
		Chart, Script template.JS
		Policy        string
	}{p, style, chart, script, allowed})
}

// WriteFile writes the page to a file, which appears complete or not at all. It returns its size.
func (p *Page) WriteFile(path string) (int, error) {
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		return 0, err
	}
	return b.Len(), atomicfile.Write(path, b.Bytes())
}

// Raises reports whether the page is of what may raise alarms, and not of smoothed sessions alone.
func (p *Page) Raises() bool { return p.Sessions == nil || p.Alerts > 0 || p.Estimates > 0 }

// Stamp is a time as the page writes it.
func (p *Page) Stamp(t time.Time) string { return t.In(p.Zone).Format(time.RFC3339) }

// Time is a time as the page writes it, and in UTC as records have it.
func (p *Page) Time(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	utc := t.UTC().Format(time.RFC3339)
	return template.HTML(`<time datetime="` + utc + `" title="` + utc + `">` + p.Stamp(t) + `</time>`)
}

// signed is a number with its sign.
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

// counted is n of something; a machine finds n without commas.
func counted(n any, one, many string) template.HTML {
	digits := fmt.Sprint(n)
	if digits != "1" {
		one = many
	}
	return template.HTML(fmt.Sprintf(`<data value="%s">%s</data> %s`, digits, grouped(n), template.HTMLEscapeString(one)))
}

// span is how long it is from one time to another.
func span(from, to time.Time) string {
	d := to.Sub(from)
	switch {
	case d >= 48*time.Hour:
		return message.Count(int(d.Hours()/24+.5), "day", "days")
	case d >= 2*time.Hour:
		return message.Duration(d.Round(time.Minute))
	}
	return message.Duration(d.Round(time.Second))
}
