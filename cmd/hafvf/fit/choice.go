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

	"gonum.org/v1/gonum/floats"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/hafvf/likelihood"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/pipeline/settings"
)

// A Response describes how subjects choose by the predictions of their learners. With m_k the predicted mean of
// option k, p(k) = exp(β m_k + κ·[k was chosen last]) / Σ_j exp(β m_j + κ·[j was chosen last]), where j are the options
// on offer.
type Response struct {
	Choice  string   // COLUMN or COLUMN=WORD, where WORD stands for outcome 1; empty means a fit without choices
	Subject []string // parts of the key that identify a subject; nil means all but the choice
	Offered string   // COLUMN with the options of a trial, separated by spaces; empty means that a trial offers all options
	Stay    bool     // κ is searched; otherwise it is 0

	column, oneWord string
	choiceIndex     int      // index of the choice in the key, where each option has a learner; negative if the choice is not in the key
	names           []string // names of the other parts of the key
	missing         []string // words for a missed choice
	outputs         int      // outputs of a learner
	words           map[string]*word
	options         []*word // options of a choice
	wrongOffer      error   // error of the first trial whose chosen option was not on offer; nil if there is none
	wrongID         string  // position of this trial
	priorMemory     float64 // observations that the prior counts for
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

// prepare checks the response against the settings and the source. Its error is a usage error.
func (r *Response) prepare(c *settings.Settings, source Source) error {
	filter, named := c.Filter().Filter, false
	r.column, r.oneWord, named = strings.Cut(r.Choice, "=")
	model, err := expfam.New(filter.Family, filter.Prior, filter.Dim)
	if err != nil {
		return err
	}
	r.words, r.missing, r.outputs, r.priorMemory = map[string]*word{}, source.Missing, model.Outputs(), model.PriorMemory()
	r.names, r.choiceIndex = source.Key, slices.Index(source.Key, r.column)
	switch single := filter.Family != "regression" && filter.Family != "ar" && r.outputs == 1; {
	case c.Aggregate != nil || source.NotLong:
		return errors.New("--response: a choice belongs to a single record, of one observation: leave out aggregate, and any layout but long")
	case r.choiceIndex < 0 && filter.Family != "bernoulli" && filter.Family != "categorical" || r.choiceIndex >= 0 && !single:
		return fmt.Errorf("--response: %s does not predict an option: use model.family bernoulli or categorical, or put the choice into the key (a learner for each option) with a family of single numbers", filter.Family)
	case named && (r.oneWord == "" || !r.mapped()):
		return errors.New("--choice: =WORD is only for two words of bernoulli, where WORD stands for outcome 1: leave it out for options")
	}
	if r.choiceIndex >= 0 {
		r.names = slices.Delete(slices.Clone(source.Key), r.choiceIndex, r.choiceIndex+1)
	}
	for i, name := range r.Subject {
		if r.Subject[i] = strings.TrimSpace(name); !slices.Contains(r.names, r.Subject[i]) {
			return fmt.Errorf("--subject: %s is not a part of the key next to the choice; %s", message.Quote(name), message.Suggest(name, r.names))
		}
	}
	return nil
}

// mapped reports whether two words stand for the outcomes 0 and 1.
func (r *Response) mapped() bool { return r.Choice != "" && r.choiceIndex < 0 && r.outputs == 1 }

// choice returns the choice of a trial, nil for a missed choice, and the options on offer, nil for all options.
func (r *Response) choice(e *keyed.Estimate) (choice *word, offered []*word) {
	var carried map[string]any
	decoder := json.NewDecoder(strings.NewReader(e.ExtraFields))
	decoder.UseNumber()
	decoder.Decode(&carried) // the parser wrote a valid object
	cell := func(column string) string { return strings.TrimSpace(fmt.Sprint(cmp.Or(carried[column], any("")))) }
	choice = r.word(cell(r.column), e.ID)
	if r.Offered == "" || choice == nil {
		return choice, nil
	}
	for name := range strings.FieldsSeq(cell(r.Offered)) {
		if w := r.word(name, e.ID); w != nil && !slices.Contains(offered, w) {
			offered = append(offered, w)
		}
	}
	if !slices.Contains(offered, choice) && (r.wrongOffer == nil || compareSourceIDs(e.ID, r.wrongID) < 0) {
		r.wrongID = strings.Clone(e.ID)
		r.wrongOffer = fmt.Errorf("--offered: %s: the chosen option %s is not among the options on offer, %s: list it in the column %s, separated by spaces, or leave a missed choice empty",
			e.ID, message.Quote(choice.name), message.Quote(cell(r.Offered)), message.Quote(r.Offered))
	}
	return choice, offered
}

// word returns the word of a text in the record with the given source ID; nil for a missed choice.
func (r *Response) word(text, sourceID string) *word {
	if domain.Missing(text) || slices.Contains(r.missing, text) {
		return nil
	}
	w := r.words[text]
	if w == nil {
		w = &word{name: text, sourceID: strings.Clone(sourceID)}
		r.words[text] = w
	}
	if compareSourceIDs(sourceID, w.sourceID) < 0 {
		w.sourceID = strings.Clone(sourceID)
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
	case r.wrongOffer != nil:
		return r.wrongOffer
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

// Notes returns lines that explain which word stands for which outcome, unless words are options, and that beta
// depends on the prior.
func (f *Fit) Notes() (lines string) {
	if f.response.mapped() {
		zero, one := f.response.options[0], f.response.options[1]
		lines = fmt.Sprintf("choices of %s: %s stands for outcome 1, %s for outcome 0 (--choice COLUMN=WORD names the word of outcome 1)\n", message.Quote(f.response.column), message.Quote(one.name), message.Quote(zero.name))
	}
	if prior := rescorlaWagner[f.filter.Filter.Family]; f.response.Choice != "" && prior != "" && f.response.priorMemory > maxNoPrior {
		lines += fmt.Sprintf("beta depends on the prior: model.prior %s, with levels: [], gives about the beta of Rescorla–Wagner, a larger prior a larger beta\n", prior)
	}
	return lines
}

// maxNoPrior is the number of observations up to which a prior hardly draws predictions to its mean.
const maxNoPrior = .1

// rescorlaWagner has the priors whose learners become those of Rescorla–Wagner after their first outcomes. A family
// is missing if its mean needs a larger prior.
var rescorlaWagner = map[string]string{
	"bernoulli": "{alpha: .01, beta: .01}", "binomial": "{alpha: .01, beta: .01}", "categorical": "{alpha: .01}",
	"poisson": "{shape: .01, rate: .01}", "normal": "{kappa: .01}",
}

// owners returns the subject of a key and the keys of its learners: the key itself or, with a learner for each
// option, the key with each option inserted.
func (r *Response) owners(key string) (subject string, learners []string) {
	if r.Choice == "" {
		return key, []string{key}
	}
	parts, subjectParts := []string{key}, []string(nil)
	if len(r.names) > 1 {
		parts = domain.SplitKey(key)
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
	return domain.JoinKey(parts)
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
func (r *Response) logP(est *keyed.Estimator, parameters []float64) func(tracks []*keyed.Track, t *trial, last *word) float64 {
	moments := keyed.Moments{Mean: make([]float64, r.outputs), SD: make([]float64, r.outputs)}
	values := make([]float64, max(r.outputs, len(r.options)))
	scratch := make([]float64, 0, len(values))
	return func(tracks []*keyed.Track, t *trial, last *word) float64 {
		for i, track := range tracks {
			est.Predict(track, t.Time, moments)
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
		onOffer := values
		if t.offered != nil {
			onOffer = scratch
			for _, w := range t.offered {
				onOffer = append(onOffer, values[w.option])
			}
		}
		if p := values[t.choice.option] - floats.LogSumExp(onOffer); !math.IsNaN(p) {
			return p
		}
		return math.Inf(-1)
	}
}
