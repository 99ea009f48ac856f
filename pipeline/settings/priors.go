package settings

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"hafvf/hafvf/expfam"
	"hafvf/hafvf/keyed"
	"hafvf/internal/domain"
	"hafvf/internal/message"
	"hafvf/pipeline/settings/keytable"
)

const (
	// maxDim is the maximum of model.dim.
	maxDim = 1_000_000
	// maxCategories limits the cost of an observation of a category; detectCategories applies with detect.
	maxCategories    = 10_000
	detectCategories = 1_000
)

// CheckPriors reads the priors of the model and of each exception. The family checks the parameters and sets the
// defaults of absent ones when its model is made.
func (d *Reading) CheckPriors() {
	c := d.c
	const path = "model.prior"
	if c.Model.Family == "" {
		return
	}
	if d.warmUp == 0 {
		d.warmUp = keyed.DefaultWarmUp
	}
	before := len(d.Errs)
	var auto bool
	c.Model.Prior, auto = d.prior(path, d.priorNode)
	// The default prior of ar has scale 1. Under it, the values of most streams would be outliers.
	auto = auto || d.priorNode == nil && c.Model.Family == "ar"
	// The default prior of categorical fits any values.
	fits := c.Model.Family != "categorical"
	if auto && fits {
		c.Model.WarmUp = d.warmUp
	}
	if rulesAuto := d.rulePriors(c, fits); d.Has("model.warm_up") && !auto && !rulesAuto {
		d.Fail("model.warm_up", "belongs to prior: auto")
	}
	if len(d.Errs) > before {
		return
	}

	if c.Model.Dim > maxDim {
		d.Fail("model.dim", "must be at most %d, not %d", maxDim, c.Model.Dim)
	}
	columns, values := d.Source.Values, ""
	if columns != nil {
		values = keytable.Join(d.Source.Path, "values")
	}
	hasDim, dimOK := d.Has("model.dim"), !d.Failed("model.dim")
	columnsOK := !d.Failed("source") && !d.Failed(values) && !d.Failed(strings.TrimSuffix(values, ".values"))
	switch {
	case !dimOK || !hasDim && !columnsOK:
		// Another error hides the length. Assume a length that fits, so that only errors at any length are reported.
		c.Model.Dim = 2
	case !hasDim:
		c.Model.Dim = len(columns)
	}
	m := d.model(path, c, c.Model.Prior, auto && fits)
	if m == nil {
		return
	}
	maxAllowed := maxCategories
	if c.Detect != nil {
		maxAllowed = detectCategories
	}
	if k := m.Outputs(); c.Model.Family == "categorical" && k > maxAllowed {
		d.Fail("model", "has %d categories; at most %d are allowed, with detect %d", k, maxCategories, detectCategories)
		return
	}
	length := observationLength(m)
	// One number may be one of several categories, each with a probability.
	if want := max(length, m.Outputs()); hasDim && dimOK && c.Model.Dim != want {
		d.Fail("model.dim", "dim %d, but %s with this prior makes it %d", c.Model.Dim, c.Model.Family, want)
	}
	if columnsOK && values != "" && len(columns) != length {
		d.Fail(values, "names %d columns; %s takes %d", len(columns), c.Model.Family, length)
	}
	for i, k := range c.Keys {
		if k.Prior == nil {
			c.Keys[i].Prior = c.Model.Prior
			continue
		}
		rulePath := fmt.Sprintf("keys.%d.model.prior", i)
		if own := d.model(rulePath, c, k.Prior, k.WarmUp > 0); own != nil && (own.Dim() != m.Dim() || own.Outputs() != m.Outputs()) {
			d.Fail(rulePath, "has another dimension than model.prior")
		}
	}
}

// rulePriors reads the priors of the exceptions. It reports whether any is auto. An auto prior is fitted to the first
// values only if fits is true.
func (d *Reading) rulePriors(c *Settings, fits bool) (anyAuto bool) {
	for i := range c.Keys {
		n := *d.keyPriors[&c.Keys[i]]
		if n == nil {
			c.Keys[i].WarmUp = c.Model.WarmUp
			continue
		}
		var auto bool
		if c.Keys[i].Prior, auto = d.prior(fmt.Sprintf("keys.%d.model.prior", i), n); auto {
			anyAuto = true
			if fits {
				c.Keys[i].WarmUp = d.warmUp
			}
		}
	}
	return anyAuto
}

// prior reads a prior: its parameters, or auto, or {auto: true} with parameters that have no scale, such as an order.
func (d *Reading) prior(path string, n *yaml.Node) (params map[string]any, auto bool) {
	params = map[string]any{}
	if n == nil {
		return params, false
	}
	if n.Kind == yaml.ScalarNode && n.Value == "auto" {
		return params, true
	}
	d.Entries(path, n, func(p string, k, v *yaml.Node) {
		value := d.value(p, v)
		if enabled, ok := value.(bool); ok && k.Value == "auto" {
			auto = enabled
			return
		}
		params[k.Value] = value
	})
	return params, auto
}

// model returns the model, or nil after reporting an error.
func (d *Reading) model(path string, c *Settings, prior map[string]any, auto bool) expfam.Model {
	m, err := expfam.New(c.Model.Family, prior, c.Model.Dim)
	if err != nil {
		d.params(path, err)
		return nil
	}
	if _, ok := m.(expfam.Fitted); auto && !ok {
		d.Fail(path, "auto: %s has no location or scale that data could set; leave out prior, or give its parameters", c.Model.Family)
		return nil
	}
	if auto {
		d.unused(path, c, m.(expfam.Fitted), prior)
	}
	return m
}

// unused reports errors for parameters that auto sets from the data: without them, the fitted model is the same.
func (d *Reading) unused(path string, c *Settings, m expfam.Fitted, prior map[string]any) {
	ls := m.LocationScale([][]float64{slices.Repeat([]float64{1}, m.Dim())})
	fitted := m.Fit(ls)
	for _, name := range slices.Sorted(maps.Keys(prior)) {
		others := maps.Clone(prior)
		delete(others, name)
		reduced, err := expfam.New(c.Model.Family, others, c.Model.Dim)
		if err != nil || reduced.Dim() != m.Dim() || reflect.DeepEqual(m, reduced) {
			continue
		}
		if reflect.DeepEqual(fitted, reduced.(expfam.Fitted).Fit(ls)) {
			d.Fail(keytable.Join(path, name), "auto sets it from the data: leave it out, or give all parameters without auto")
		}
	}
}

// observationLength returns how many numbers an observation of the model has.
func observationLength(m expfam.Model) int {
	if _, ok := m.(expfam.Sequential); ok {
		return 1
	}
	return m.Dim()
}

// params reports the family's errors for the prior at path.
func (d *Reading) params(path string, err error) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, err := range joined.Unwrap() {
			d.params(path, err)
		}
		return
	}
	p, ok := errors.AsType[*expfam.ParamError](err)
	if !ok {
		d.Fail(path, "%v", err)
		return
	}
	paramPath := keytable.Join(path, keytable.KeyName(p.Name))
	if p.Known != nil {
		d.Fail(paramPath, "unknown key; %s", message.Suggest(p.Name, p.Known))
		return
	}
	d.Fail(paramPath, "%s", p.Reason)
}

// value reads a parameter of any family: a number, a bool, a vector, or a matrix by rows.
func (d *Reading) value(path string, n *yaml.Node) any {
	if n.Kind == yaml.SequenceNode {
		switch {
		case len(n.Content) == 0:
			d.Fail(path, "must not be empty")
			return nil
		case n.Content[0].Kind != yaml.SequenceNode:
			return d.vector(path, n)
		}
		rows := make([][]float64, len(n.Content))
		for i, row := range n.Content {
			p := d.Entry(path, i, row)
			if row.Kind != yaml.SequenceNode {
				d.WrongType(p, "a row of numbers", row)
				continue
			}
			rows[i] = d.vector(p, row)
		}
		return rows
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" {
		var v bool
		if n.Decode(&v) == nil {
			return v
		}
	}
	if _, ok := keytable.NumberOf(n); !ok {
		d.WrongType(path, "a number, a list, true or false", n)
		return nil
	}
	var v float64
	d.Number(path, n, domain.Finite, &v)
	return v
}

func (d *Reading) vector(path string, n *yaml.Node) []float64 {
	v := make([]float64, len(n.Content))
	for i, e := range n.Content {
		d.Number(d.Entry(path, i, e), e, domain.Finite, &v[i])
	}
	return v
}
