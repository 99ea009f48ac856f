package decode

import (
	"testing"

	"hafvf/hafvf/keyed"
	"hafvf/internal/testing/expect"
	"hafvf/pipeline/config"
)

// A row of a table with session.by has its session and its key, or the reason why it has no session.
func TestSessionOfRow(t *testing.T) {
	const text = "transform: smooth\norder: arrival\nmodel: {family: normal}\nsession: {by: [block]}\nsource: {csv: {path: in.csv, time: ''}}"
	c := expect.Get(config.Parse("c", []byte(text), nil))(t)
	_, fields := Files(c)
	p := expect.Get(NewParser(fields))(t)
	for _, r := range []struct {
		fields               []string
		session, key, reason string
	}{
		{[]string{"1", "k", "", "2"}, "1", "k", ""},
		{[]string{"", "k", "", "2"}, "", "", `"block" is empty, which session.by names`},
	} {
		var o keyed.Observation
		key, err := p.row(r.fields, origin{}, &o)
		reason := ""
		if err != nil {
			reason = err.Error()
		}
		expect.Same(t, [...]string{r.session, r.key, r.reason}, [...]string{o.Session, key, reason}, r.fields)
	}
}
