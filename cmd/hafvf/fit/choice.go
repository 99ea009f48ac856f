package fit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/likelihood"
	"hafvf/internal/message"
	"hafvf/internal/series"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
)

// A Response is how subjects choose by what their learners predict, whose mean of option k is m_k:
// p(k) = exp(β m_k + κ·[k was chosen last]) / Σ_j exp(β m_j + κ·[j was chosen last]). Without one, which
// is nil, a key is a subject that does not choose.
type Response struct {
	Column  string   // of the choices
	Word    string   // of two, that of outcome 1; empty: the second in sorted order
	Subject []string // the parts of the key that numbers are of; empty: all but the choice
	Stay    bool     // κ is searched, and not 0

	at      int      // where the choice stands in the key; negative: it does not
	names   []string // of the other parts of the key
	missing []string // what stands for no choice
	model   expfam.Model
	words   map[string]*word
	options []*word
}

// A word is one of the column of choices.
type word struct {
	name, place string // where it stands first
	option      int
}

// parameters are those of the response: β and κ.
func (r *Response) parameters() []path {
	const most, stays = 1e4, 20
	all := []path{{name: "beta", level: -1, within: likelihood.Parameter{Start: 1, Lower: 1 / most, Upper: most, Scale: likelihood.Positive}}}
	if r.Stay {
		all = append(all, path{name: "stay", level: -1, within: likelihood.Parameter{Lower: -stays, Upper: stays, Scale: likelihood.Real}})
	}
	return all
}

// reads makes the config one whose keys are without the choice, which is carried instead: so the trials of
// several options follow each other as in the file. An error is one of usage.
func (r *Response) reads(c *config.Config) (err error) {
	files, filter := c.Source.Files(), c.Filter().Filter
	if r.model, err = expfam.New(filter.Family, filter.Prior, filter.Dim); err != nil {
		return err
	}
	r.words, r.missing = map[string]*word{}, files.Missing
	r.names, r.at = files.Key, slices.Index(files.Key, r.Column)
	tosses, regresses := filter.Family == "bernoulli", filter.Family == "regression" || filter.Family == "ar"
	switch {
	case c.Aggregate != nil:
		return errors.New("--response: a choice belongs to a single record, of which aggregate makes intervals: leave out aggregate")
	case files.Layout != config.Long:
		return fmt.Errorf("--response: a record of layout: %s has no choice of its own: give layout: long", files.Layout)
	case r.at < 0 && !tosses && filter.Family != "categorical":
		return fmt.Errorf("--response: %s has no probability of an option: give model.family bernoulli or categorical, or a key with the choice, key: [subject, %s], where each option has a learner", filter.Family, message.Printable(r.Column))
	case r.at >= 0 && (regresses || r.model.Outputs() > 1):
		return fmt.Errorf("--response: %s predicts no one number of an option: give model.family bernoulli, normal or another one of single values", filter.Family)
	case r.Word != "" && (r.at >= 0 || !tosses):
		return errors.New("--choice: of two words of bernoulli one stands for outcome 1, and here words are options: leave out =" + message.Printable(r.Word))
	}
	if r.at >= 0 {
		r.names = slices.Delete(slices.Clone(files.Key), r.at, r.at+1)
		files.Key, c.Keys = r.names, nil // exceptions are of keys with the choice
	}
	for _, name := range r.Subject {
		if !slices.Contains(r.names, name) {
			return fmt.Errorf("--subject: %s is no part of the key beside the choice; %s", message.Quote(name), message.Suggest(name, r.names))
		}
	}
	if !slices.Contains(files.Carry, r.Column) {
		files.Carry = append(slices.Clone(files.Carry), r.Column)
	}
	return nil
}

// word is that of the choice of a trial; nil for a missed one.
func (r *Response) word(e *keyed.Estimate) *word {
	var carried map[string]json.RawMessage
	json.Unmarshal([]byte(e.Carried), &carried) // the parser has written an object
	raw := carried[r.Column]
	text := string(raw)
	if bytes.HasPrefix(raw, []byte{'"'}) {
		json.Unmarshal(raw, &text)
	}
	if text = strings.TrimSpace(text); decode.Missing(text) || slices.Contains(r.missing, text) {
		return nil
	}
	w := r.words[text]
	if w == nil {
		w = &word{name: strings.Clone(text), place: strings.Clone(e.ID)}
		r.words[w.name] = w
	}
	if byPlace(e.ID, w.place) < 0 {
		w.place = strings.Clone(e.ID)
	}
	return w
}

// byPlace compares places in files.
func byPlace(a, b string) int {
	parts := func(place string) (file string, line int) {
		i := strings.LastIndexByte(place, ':')
		line, _ = strconv.Atoi(place[i+1:])
		return place[:i+1], line
	}
	file, line := parts(a)
	other, at := parts(b)
	return cmp.Or(cmp.Compare(file, other), cmp.Compare(line, at))
}

// read ends the reading: it says which option each word is. An error is one of usage.
func (r *Response) read() error {
	r.options = slices.SortedFunc(maps.Values(r.words), func(a, b *word) int { return cmp.Compare(a.name, b.name) })
	switch column := message.Quote(r.Column); {
	case len(r.options) == 0:
		return fmt.Errorf("--choice: the column %s has no choices", column)
	case r.at >= 0:
		if len(r.options) == 1 {
			return fmt.Errorf("--choice: the column %s has one option, %s: there is nothing to choose", column, message.Quote(r.options[0].name))
		}
	case r.model.Outputs() > 1:
		for _, w := range r.options {
			k, err := strconv.Atoi(w.name)
			if err != nil || k < 0 || k >= r.model.Outputs() {
				return fmt.Errorf("--choice: %s: the choice %s is none of the outcomes 0 to %d", w.place, message.Quote(w.name), r.model.Outputs()-1)
			}
			w.option = k
		}
		return nil
	default:
		return r.two()
	}
	for i, w := range r.options {
		w.option = i
	}
	return nil
}

// two says which of two words stands for outcome 1.
func (r *Response) two() error {
	switch {
	case r.Word != "" && r.words[r.Word] == nil:
		r.options = append(r.options, &word{name: r.Word})
	case r.Word != "" && len(r.options) == 1:
		r.options = append(r.options, &word{name: "another word"})
	case len(r.options) == 1:
		return fmt.Errorf("--choice: the column %s has only the word %s: say which one stands for outcome 1, as --choice COLUMN=WORD", message.Quote(r.Column), message.Quote(r.options[0].name))
	}
	if len(r.options) > 2 {
		slices.SortFunc(r.options, func(a, b *word) int {
			if a.name == r.Word || b.name == r.Word {
				return map[bool]int{true: -1, false: 1}[a.name == r.Word]
			}
			return byPlace(a.place, b.place)
		})
		third := r.options[2]
		return fmt.Errorf("--choice: %s: %s is a third word beside %s and %s: name what stands for a missed choice in missing of the source", third.place, message.Quote(third.name), message.Quote(r.options[0].name), message.Quote(r.options[1].name))
	}
	if r.options[0].name == r.Word {
		slices.Reverse(r.options)
	}
	r.options[1].option = 1
	return nil
}

// Mapping is a line that says which word stands for which outcome; empty if words are options.
func (r *Response) Mapping() string {
	if !r.mapped() {
		return ""
	}
	return fmt.Sprintf("choices of %s: %s stands for outcome 1, %s for outcome 0 (--choice COLUMN=WORD names the word of outcome 1)\n", message.Quote(r.Column), message.Quote(r.options[1].name), message.Quote(r.options[0].name))
}

// mapped reports whether two words stand for outcomes, and could do so the other way round.
func (r *Response) mapped() bool { return r != nil && r.at < 0 && r.model.Outputs() == 1 }

// parts are those of a key without the choice.
func (r *Response) parts(key string) []string {
	if len(r.names) > 1 {
		return series.Split(key)
	}
	return []string{key}
}

// subject is the name of the subject of a key.
func (r *Response) subject(key string) string {
	if r == nil || len(r.Subject) == 0 {
		return key
	}
	var own []string
	for i, part := range r.parts(key) {
		if slices.Contains(r.Subject, r.names[i]) {
			own = append(own, part)
		}
	}
	if len(own) == 1 {
		return own[0]
	}
	return series.Join(own)
}

// learners are the names of the learners of a key: itself or, with a learner for each option, the keys with these.
func (r *Response) learners(key string) (names []string) {
	switch {
	case r == nil || r.at < 0:
		return []string{key}
	case len(r.names) == 0:
		for _, w := range r.options {
			names = append(names, w.name)
		}
		return names
	}
	for _, w := range r.options {
		names = append(names, series.Join(slices.Insert(r.parts(key), r.at, w.name)))
	}
	return names
}

// learner is the place of the learner of a trial among those of the key; negative if no option has its outcome.
func (r *Response) learner(chosen *word) int {
	switch {
	case r == nil || r.at < 0:
		return 0
	case chosen == nil:
		return -1
	}
	return chosen.option
}

// A chooser is a response at values of β and κ, and what its learners predict.
type chooser struct {
	*Response
	est        *keyed.Estimator
	beta, stay float64
	predicted  keyed.Moments
	values     []float64 // of the options
}

func (r *Response) chooser(est *keyed.Estimator, at []float64) *chooser {
	if r == nil {
		return nil
	}
	n := r.model.Outputs()
	c := &chooser{Response: r, est: est, beta: at[0], predicted: keyed.Moments{Mean: make([]float64, n), SD: make([]float64, n)}, values: make([]float64, max(n, len(r.options)))}
	if r.Stay {
		c.stay = at[1]
	}
	return c
}

// logP is the log probability of a choice, before the trial of a time; last is nil at the first choice.
func (c *chooser) logP(tracks []*keyed.Track, at time.Time, chosen, last *word) float64 {
	for i, t := range tracks {
		c.est.Predict(t, at, c.predicted)
		c.values[i] = c.predicted.Mean[0]
	}
	switch {
	case c.mapped():
		m := c.predicted.Mean[0]
		c.values[0], c.values[1] = 1-m, m
	case c.at < 0:
		copy(c.values, c.predicted.Mean)
	}
	for i := range c.values {
		c.values[i] *= c.beta
	}
	if last != nil {
		c.values[last.option] += c.stay
	}
	most, sum := slices.Max(c.values), 0.
	for _, v := range c.values {
		sum += math.Exp(v - most)
	}
	p := c.values[chosen.option] - most - math.Log(sum)
	if math.IsNaN(p) {
		return math.Inf(-1)
	}
	return p
}
