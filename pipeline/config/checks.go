package config

import (
	"slices"
	"strings"

	"hafvf/connectors"
	"hafvf/hafvf/keyed"
	"hafvf/internal/message"
	"hafvf/pipeline/settings"
	"hafvf/pipeline/settings/keytable"
)

// A decoder reads a config.
type decoder struct{ *settings.Reading }

// check holds what concerns more than one key of what is read and written.
func (d *decoder) check(c *Config) {
	d.checkNumbers(c)
	d.checkFiles(c)
	for _, o := range c.Source.Origins {
		o.check(d, c)
	}
	d.checkKafka(c)
	d.checkWritten(c)
	d.checkRunner(c)
	d.checkMarks(c)
}

// given tells the settings what they go by of the source.
func (d *decoder) given(c *Config) {
	f, path := c.Source.fields()
	d.Source = settings.Source{
		Path: path, Time: f.Time, Zone: f.Zone, Trials: f.TimeFormat == Trial, Unending: c.Source.Unending(), Watermark: c.Source.Kafka() != nil,
		Share: func(of, to string) {
			f.Values = []string{of, to}
			if d.Has(path + ".values") {
				d.Fail(path+".values", "a share is of the fields aggregate.of and aggregate.to")
			}
			if c.Source.Prometheus() != nil {
				d.Fail("aggregate.value", "a share takes two fields of a record, and a point is one number: divide in the query")
			}
			if f.Layout != Long && f.Layout != "" {
				d.Fail(path+".layout", "a share takes two fields of a record: layout long")
			}
		},
	}
}

// fields settles what is read of a record, as the settings want it.
func (d *decoder) fields(c *Config) {
	f, _ := c.Source.fields()
	if c.Aggregate != nil && c.Aggregate.Value.Counts() && f.Layout == Long {
		f.Values = nil
	}
	if c.Transform == settings.Smooth && c.SessionOrder() != keyed.EventTime {
		f.By, f.Untimed = c.Session.By, f.TimeFormat != Trial
	}
	d.Source.Values = c.Source.columns()
}

// layout settles what the layouts wide and series need.
func (d *decoder) layout(c *Config) {
	f, path := c.Source.fields()
	switch f.Layout {
	case Wide:
		if !d.Has(path + ".key") {
			f.Key = nil
		}
		if !d.Has(path + ".values") {
			f.Values = []string{"*"}
		}
		f.Columns, f.Values = f.Values, []string{"value"}
	case Series:
		if len(f.Values) != 1 {
			d.Fail(path+".values", "the layout series has one list of values")
		}
		if len(f.Time) > 1 {
			d.Fail(path+".time", "the layout series has one list of times")
		}
	}
}

// checkNumbers refuses ways to write numbers that do not go together.
func (d *decoder) checkNumbers(c *Config) {
	f, path := c.Source.fields()
	if path == "" {
		return
	}
	if d.Has(path+".thousands") && f.Thousands == f.Decimal {
		d.Fail(path+".thousands", "%q is decimal: it cannot be both", f.Decimal)
	}
	for _, name := range []string{"unit", "thousands", "values_as"} {
		if d.Has(keytable.Join(path, name)) && f.Layout == Wide && slices.ContainsFunc(f.Columns, connectors.IsPattern) {
			d.Fail(keytable.Join(path, name), "takes names in values, where there is a pattern: that looks for plain numbers")
		}
		if d.Has(keytable.Join(path, name)) && name != "values_as" && f.ValuesAs != nil && !d.Failed(path+".values_as") {
			d.Fail(keytable.Join(path, name), "is of numbers, and values_as names the only values: leave out one of them")
		}
	}
	family := c.Model.Family
	if f.Unit != "" && (family == "bernoulli" || family == "categorical") {
		d.Fail(path+".unit", "is of measurements; %s has choices", family)
	}
	if f.ValuesAs == nil || d.Failed(path+".values_as") {
		return
	}
	if family == "binomial" || family == "exponential" {
		d.Fail(path+".values_as", "makes 0 and 1, and %s has other values", family)
	}
	for _, is := range f.ValuesAs {
		if is == "" || strings.EqualFold(is, "nan") || slices.Contains(f.Missing, is) {
			d.Fail(path+".values_as", "%s is a missing value", message.Quote(is))
		}
	}
}
