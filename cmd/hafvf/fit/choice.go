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

// A Response describes how subjects choose by the predictions of their learners. With m_k the predicted mean of
// option k, p(k) = exp(β m_k + κ·[k was chosen last]) / Σ_j exp(β m_j + κ·[j was chosen last]).
type Response struct {
	Choice  string   // COLUMN or COLUMN=WORD, where WORD stands for outcome 1; empty means a fit without choices
	Subject []string // parts of the key that identify a subject; nil means all but the choice
	Stay    bool     // κ is searched; otherwise it is 0

	column, oneWord string
	choiceIndex     int      // index of the choice in the key, where each option has a learner; negative if the choice is not in the key
	names           []string // names of the other parts of the key
	missing         []string // words for a missed choice
	outputs         int      // outputs of a learner
	words           map[string]*word
	options         []*word // options of a choice
}

// A word is a value in the column of choices, with the position of its first record.
type word struct {
	name, sourceID string
	option         int
}

// parameters returns β and, with Stay, κ.
func (r *Response) parameters() []path {
	const maxBeta, maxStay = 1e4, 20
	parameters := []path{{name: "beta", level: -1, Parameter: likelihood.Parameter{Start: 1, Lower: 1 / maxBeta, Upper: maxBeta, Scale: likelihood.Positive}}}
	if r.Stay {
		parameters = append(parameters, path{name: "stay", level: -1, Parameter: likelihood.Parameter{Lower: -maxStay, Upper: maxStay, Scale: likelihood.Real}})
	}
	return parameters
}

// prepare changes the config to carry the choice instead of having it in the key, so that the trials of several
// options keep the order of the file. Its error is a usage error.
func (r *Response) prepare(c *config.Config) error {
	files, filter, named := c.Source.Files(), c.Filter().Filter, false
	r.column, r.oneWord, named = strings.Cut(r.Choice, "=")
	model, err := expfam.New(filter.Family, filter.Prior, filter.Dim)
	if err != nil {
		return err
	}
	r.words, r.missing, r.outputs = map[string]*word{}, files.Missing, model.Outputs()
	r.names, r.choiceIndex = files.Key, slices.Index(files.Key, r.column)
	switch single := filter.Family != "regression" && filter.Family != "ar" && r.outputs == 1; {
	case c.Aggregate != nil || files.Layout != config.Long:
		return errors.New("--response: a choice belongs to a single record, of one observation: leave out aggregate, and any layout but long")
	case r.choiceIndex < 0 && filter.Family != "bernoulli" && filter.Family != "categorical" || r.choiceIndex >= 0 && !single:
		return fmt.Errorf("--response: %s does not predict an option: use model.family bernoulli or categorical, or put the choice into the key (a learner for each option) with a family of single numbers", filter.Family)
	case named && (r.oneWord == "" || !r.mapped()):
		return errors.New("--choice: =WORD is only for two words of bernoulli, where WORD stands for outcome 1: leave it out for options")
	}
	if r.choiceIndex >= 0 {
		r.names = slices.Delete(slices.Clone(files.Key), r.choiceIndex, r.choiceIndex+1)
		files.Key, c.Keys = r.names, nil // exceptions match keys that include the choice
	}
	for i, name := range r.Subject {
		if r.Subject[i] = strings.TrimSpace(name); !slices.Contains(r.names, r.Subject[i]) {
			return fmt.Errorf("--subject: %s is not a part of the key next to the choice; %s", message.Quote(name), message.Suggest(name, r.names))
		}
	}
	if !slices.Contains(files.Carry, r.column) {
		files.Carry = append(slices.Clone(files.Carry), r.column)
	}
	return nil
}

// mapped reports whether two words stand for the outcomes 0 and 1.
func (r *Response) mapped() bool { return r.Choice != "" && r.choiceIndex < 0 && r.outputs == 1 }

// word returns the choice of a trial; nil for a missed choice.
func (r *Response) word(e *keyed.Estimate) *word {
	var carried map[string]any
	decoder := json.NewDecoder(strings.NewReader(e.ExtraFields))
	decoder.UseNumber()
	decoder.Decode(&carried) // the parser wrote a valid object
	text := strings.TrimSpace(fmt.Sprint(cmp.Or(carried[r.column], any(""))))
	if decode.Missing(text) || slices.Contains(r.missing, text) {
		return nil
	}
	w := r.words[text]
	if w == nil {
		w = &word{name: text, sourceID: strings.Clone(e.ID)}
		r.words[text] = w
	}
	if compareSourceIDs(e.ID, w.sourceID) < 0 {
		w.sourceID = strings.Clone(e.ID)
	}
	return w
}

// compareSourceIDs compares positions in a file. Longer ones have larger line numbers.
func compareSourceIDs(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// read assigns an option to each word, after all trials are read. Its error is a usage error.
func (r *Response) read() error {
	r.options = slices.SortedFunc(maps.Values(r.words), func(a, b *word) int { return cmp.Compare(a.name, b.name) })
	for i, w := range r.options {
		w.option = i
	}
	switch {
	case len(r.options) == 0 || r.choiceIndex >= 0 && len(r.options) == 1:
		return fmt.Errorf("--choice: the column %s has %s: a choice needs two", message.Quote(r.column), message.Count(len(r.options), "word", "words"))
	case r.mapped():
		return r.assignTwo()
	case r.choiceIndex >= 0:
		return nil
	}
	for _, w := range r.options {
		k, err := strconv.Atoi(w.name)
		if err != nil || k < 0 || k >= r.outputs {
			return fmt.Errorf("--choice: %s: the choice %s is not an outcome from 0 to %d", w.sourceID, message.Quote(w.name), r.outputs-1)
		}
		w.option = k
	}
	return nil
}

// assignTwo decides which of two words stands for outcome 1. That word is the last option.
func (r *Response) assignTwo() error {
	rest, maxRest := r.options, 2
	if r.oneWord != "" {
		rest, maxRest = slices.DeleteFunc(rest, func(w *word) bool { return w.name == r.oneWord }), 1
		r.options = append(slices.Clone(rest), cmp.Or(r.words[r.oneWord], &word{name: r.oneWord}))
	}
	switch {
	case len(rest) > maxRest:
		slices.SortFunc(rest, func(a, b *word) int { return compareSourceIDs(a.sourceID, b.sourceID) })
		third := rest[maxRest]
		return fmt.Errorf("--choice: %s: %s is a third word, but only two can stand for outcomes: list words for missed choices under missing of the source", third.sourceID, message.Quote(third.name))
	case len(r.options) == 1 && r.oneWord == "":
		return fmt.Errorf("--choice: the column %s has only the word %s: give the word for outcome 1, as --choice COLUMN=WORD", message.Quote(r.column), message.Quote(rest[0].name))
	case len(r.options) == 1:
		r.options = slices.Insert(r.options, 0, &word{name: "another word"})
	}
	r.options[0].option, r.options[1].option = 0, 1
	return nil
}

// Mapping returns a line that explains which word stands for which outcome; empty if words are options.
func (f *Fit) Mapping() string {
	if !f.response.mapped() {
		return ""
	}
	zero, one := f.response.options[0], f.response.options[1]
	return fmt.Sprintf("choices of %s: %s stands for outcome 1, %s for outcome 0 (--choice COLUMN=WORD names the word of outcome 1)\n", message.Quote(f.response.column), message.Quote(one.name), message.Quote(zero.name))
}

// owners returns the subject of a key and the keys of its learners: the key itself or, with a learner for each
// option, the key with each option inserted.
func (r *Response) owners(key string) (subject string, learners []string) {
	if r.Choice == "" {
		return key, []string{key}
	}
	parts, subjectParts := []string{key}, []string(nil)
	if len(r.names) > 1 {
		parts = series.Split(key)
	}
	for i, name := range r.names {
		if r.Subject == nil || slices.Contains(r.Subject, name) {
			subjectParts = append(subjectParts, parts[i])
		}
	}
	if len(subjectParts) > 0 {
		key = joined(subjectParts)
	}
	if r.choiceIndex < 0 {
		return key, []string{joined(parts)}
	}
	for _, w := range r.options {
		learners = append(learners, joined(slices.Insert(slices.Clone(parts[:len(r.names)]), r.choiceIndex, w.name)))
	}
	return key, learners
}

// joined returns the key of the given parts.
func joined(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return series.Join(parts)
}

// learner returns the index of a trial's learner in the key's learners; negative if the outcome belongs to no option.
func (r *Response) learner(choice *word) int {
	switch {
	case r.Choice == "" || r.choiceIndex < 0:
		return 0
	case choice == nil:
		return -1
	}
	return choice.option
}

// logP returns a function for the log probability of a choice before a trial, at values of β and κ. last is nil at
// the first choice.
func (r *Response) logP(est *keyed.Estimator, parameters []float64) func(tracks []*keyed.Track, before time.Time, choice, last *word) float64 {
	moments := keyed.Moments{Mean: make([]float64, r.outputs), SD: make([]float64, r.outputs)}
	values := make([]float64, max(r.outputs, len(r.options)))
	return func(tracks []*keyed.Track, before time.Time, choice, last *word) float64 {
		for i, t := range tracks {
			est.Predict(t, before, moments)
			values[i] = moments.Mean[0]
		}
		switch {
		case r.mapped():
			values[0], values[1] = 1-moments.Mean[0], moments.Mean[0]
		case r.choiceIndex < 0:
			copy(values, moments.Mean)
		}
		for i := range values {
			values[i] *= parameters[0]
		}
		if last != nil && r.Stay {
			values[last.option] += parameters[1]
		}
		if p := values[choice.option] - floats.LogSumExp(values); !math.IsNaN(p) {
			return p
		}
		return math.Inf(-1)
	}
}
