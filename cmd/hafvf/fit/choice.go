package fit

import (
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

	"gonum.org/v1/gonum/floats"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/likelihood"
	"hafvf/internal/message"
	"hafvf/internal/series"
	"hafvf/pipeline/config"
	"hafvf/pipeline/decode"
)

// A Response is how subjects choose by what their learners predict, whose mean of option k is m_k:
// p(k) = exp(β m_k + κ·[k was chosen last]) / Σ_j exp(β m_j + κ·[j was chosen last]).
type Response struct {
	Choice  string   // COLUMN or COLUMN=WORD, of two words that of outcome 1; empty: no choice enters
	Subject []string // the parts of the key that numbers are of; nil: all but the choice
	Stay    bool     // κ is searched, and not 0

	column, one string
	at          int      // where the choice stands in the key, where each option has a learner; negative: it does not
	names       []string // of the other parts of the key
	missing     []string // what stands for no choice
	outputs     int      // of a learner
	words       map[string]*word
	options     []*word // of a choice
}

// A word is one of the column of choices. It first stands at a place.
type word struct {
	name, place string
	option      int
}

// parameters are those of the response: β and κ.
func (r *Response) parameters() []path {
	const most, stays = 1e4, 20
	all := []path{{name: "beta", level: -1, Parameter: likelihood.Parameter{Start: 1, Lower: 1 / most, Upper: most, Scale: likelihood.Positive}}}
	if r.Stay {
		all = append(all, path{name: "stay", level: -1, Parameter: likelihood.Parameter{Lower: -stays, Upper: stays, Scale: likelihood.Real}})
	}
	return all
}

// choosing makes the config one whose keys are without the choice, which is carried instead: so the trials of
// several options follow each other as in the file. An error is one of usage.
func (r *Response) choosing(c *config.Config) error {
	files, filter, named := c.Source.Files(), c.Filter().Filter, false
	r.column, r.one, named = strings.Cut(r.Choice, "=")
	model, err := expfam.New(filter.Family, filter.Prior, filter.Dim)
	if err != nil {
		return err
	}
	r.words, r.missing, r.outputs = map[string]*word{}, files.Missing, model.Outputs()
	r.names, r.at = files.Key, slices.Index(files.Key, r.column)
	switch single := filter.Family != "regression" && filter.Family != "ar" && r.outputs == 1; {
	case c.Aggregate != nil || files.Layout != config.Long:
		return errors.New("--response: a choice belongs to a single record, of one observation: leave out aggregate, and layout but for long")
	case r.at < 0 && filter.Family != "bernoulli" && filter.Family != "categorical" || r.at >= 0 && !single:
		return fmt.Errorf("--response: %s does not predict an option: give model.family bernoulli or categorical or, with the choice in the key and so a learner for each option, a family of single numbers", filter.Family)
	case named && (r.one == "" || !r.mapped()):
		return errors.New("--choice: =WORD is of two words of bernoulli the one that stands for outcome 1; an option needs none")
	}
	if r.at >= 0 {
		r.names = slices.Delete(slices.Clone(files.Key), r.at, r.at+1)
		files.Key, c.Keys = r.names, nil // exceptions are of keys with the choice
	}
	for i, name := range r.Subject {
		if r.Subject[i] = strings.TrimSpace(name); !slices.Contains(r.names, r.Subject[i]) {
			return fmt.Errorf("--subject: %s is no part of the key beside the choice; %s", message.Quote(name), message.Suggest(name, r.names))
		}
	}
	if !slices.Contains(files.Carry, r.column) {
		files.Carry = append(slices.Clone(files.Carry), r.column)
	}
	return nil
}

// mapped reports whether two words stand for outcomes, and could do so the other way round.
func (r *Response) mapped() bool { return r.Choice != "" && r.at < 0 && r.outputs == 1 }

// word is that of the choice of a trial; nil for a missed one.
func (r *Response) word(e *keyed.Estimate) *word {
	var carried map[string]any
	in := json.NewDecoder(strings.NewReader(e.Carried))
	in.UseNumber()
	in.Decode(&carried) // the parser has written an object
	text := strings.TrimSpace(fmt.Sprint(cmp.Or(carried[r.column], any(""))))
	if decode.Missing(text) || slices.Contains(r.missing, text) {
		return nil
	}
	w := r.words[text]
	if w == nil {
		w = &word{name: text, place: strings.Clone(e.ID)}
		r.words[text] = w
	}
	if byPlace(e.ID, w.place) < 0 {
		w.place = strings.Clone(e.ID)
	}
	return w
}

// byPlace compares places in a file, whose lines come last.
func byPlace(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// read ends the reading: it says which option each word is. An error is one of usage.
func (r *Response) read() error {
	r.options = slices.SortedFunc(maps.Values(r.words), func(a, b *word) int { return cmp.Compare(a.name, b.name) })
	for i, w := range r.options {
		w.option = i
	}
	switch {
	case len(r.options) == 0 || r.at >= 0 && len(r.options) == 1:
		return fmt.Errorf("--choice: there is nothing to choose in the column %s, which has %s", message.Quote(r.column), message.Count(len(r.options), "word", "words"))
	case r.mapped():
		return r.two()
	case r.at >= 0:
		return nil
	}
	for _, w := range r.options {
		k, err := strconv.Atoi(w.name)
		if err != nil || k < 0 || k >= r.outputs {
			return fmt.Errorf("--choice: %s: the choice %s is none of the outcomes 0 to %d", w.place, message.Quote(w.name), r.outputs-1)
		}
		w.option = k
	}
	return nil
}

// two says which of two words stands for outcome 1, and comes last.
func (r *Response) two() error {
	others, most := r.options, 2
	if r.one != "" {
		others, most = slices.DeleteFunc(others, func(w *word) bool { return w.name == r.one }), 1
		r.options = append(slices.Clone(others), cmp.Or(r.words[r.one], &word{name: r.one}))
	}
	switch {
	case len(others) > most:
		slices.SortFunc(others, func(a, b *word) int { return byPlace(a.place, b.place) })
		third := others[most]
		return fmt.Errorf("--choice: %s: %s is a third word, and two stand for outcomes: name what stands for a missed choice in missing of the source", third.place, message.Quote(third.name))
	case len(r.options) == 1 && r.one == "":
		return fmt.Errorf("--choice: the column %s has only the word %s: say which one stands for outcome 1, as --choice COLUMN=WORD", message.Quote(r.column), message.Quote(others[0].name))
	case len(r.options) == 1:
		r.options = slices.Insert(r.options, 0, &word{name: "another word"})
	}
	r.options[0].option, r.options[1].option = 0, 1
	return nil
}

// Mapping is a line that says which word stands for which outcome; empty if words are options.
func (f *Fit) Mapping() string {
	if !f.response.mapped() {
		return ""
	}
	zero, one := f.response.options[0], f.response.options[1]
	return fmt.Sprintf("choices of %s: %s stands for outcome 1, %s for outcome 0 (--choice COLUMN=WORD names the word of outcome 1)\n", message.Quote(f.response.column), message.Quote(one.name), message.Quote(zero.name))
}

// owners are the subject of a key and its learners: the key or, with a learner for each option, the keys with these.
func (r *Response) owners(key string) (subject string, learners []string) {
	if r.Choice == "" {
		return key, []string{key}
	}
	parts, own := []string{key}, []string(nil)
	if len(r.names) > 1 {
		parts = series.Split(key)
	}
	for i, name := range r.names {
		if r.Subject == nil || slices.Contains(r.Subject, name) {
			own = append(own, parts[i])
		}
	}
	if len(own) > 0 {
		key = joined(own)
	}
	if r.at < 0 {
		return key, []string{joined(parts)}
	}
	for _, w := range r.options {
		learners = append(learners, joined(slices.Insert(slices.Clone(parts[:len(r.names)]), r.at, w.name)))
	}
	return key, learners
}

// joined is a key of parts.
func joined(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return series.Join(parts)
}

// learner is the place of the learner of a trial among those of the key; negative if no option has its outcome.
func (r *Response) learner(choice *word) int {
	switch {
	case r.Choice == "" || r.at < 0:
		return 0
	case choice == nil:
		return -1
	}
	return choice.option
}

// logP returns the log probability of a choice before the trial of a time, at values of β and κ; last is nil at the
// first choice.
func (r *Response) logP(est *keyed.Estimator, at []float64) func(tracks []*keyed.Track, before time.Time, choice, last *word) float64 {
	to := keyed.Moments{Mean: make([]float64, r.outputs), SD: make([]float64, r.outputs)}
	values := make([]float64, max(r.outputs, len(r.options)))
	return func(tracks []*keyed.Track, before time.Time, choice, last *word) float64 {
		for i, t := range tracks {
			est.Predict(t, before, to)
			values[i] = to.Mean[0]
		}
		switch {
		case r.mapped():
			values[0], values[1] = 1-to.Mean[0], to.Mean[0]
		case r.at < 0:
			copy(values, to.Mean)
		}
		for i := range values {
			values[i] *= at[0]
		}
		if last != nil && r.Stay {
			values[last.option] += at[1]
		}
		if p := values[choice.option] - floats.LogSumExp(values); !math.IsNaN(p) {
			return p
		}
		return math.Inf(-1)
	}
}
