package adafvf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"hafvf/internal/beta"
)

// An encoded state is a kind, a version, the settings without which its numbers
// mean something else, and per group name, length and numbers, little endian. It
// holds no parameters: those are the caller's to save.
const stateVersion = 1

const (
	kindAdaFVF = 'F'
	kindAdam   = 'A'
)

// MarshalBinary encodes what is known of the gradients, for UnmarshalBinary. The
// parameters are not in it.
func (o *Optimizer) MarshalBinary() ([]byte, error) {
	b := o.head(kindAdaFVF, o.settings())
	for i, s := range o.groups {
		b = o.groupHead(b, i)
		b = floats(b, s.kappa, s.alpha)
		for _, phi := range s.phi {
			b = floats(b, phi.Alpha, phi.Beta)
		}
		b = floats(floats(b, s.m...), s.beta...)
	}
	return b, nil
}

// UnmarshalBinary puts the optimizer, which New has made of groups with the same
// names and lengths, where the encoded one was: what follows is the same to the
// last bit, if the parameters are. Rate, schedule, weight decay, pooling and
// coordinates are the optimizer's own; another prior or other levels are an error,
// after which the optimizer is as before.
func (o *Optimizer) UnmarshalBinary(data []byte) error {
	d := decoder{rest: data}
	steps := d.head(kindAdaFVF, o.settings())
	skipped := make([]int, len(o.groups))
	groups := make([]group, len(o.groups))
	for i := range groups {
		n := len(o.given[i].Params)
		skipped[i] = d.groupHead(&o.base, i, 8+2*n)
		s := group{kappa: d.float(), alpha: d.float()}
		for k := range s.phi {
			s.phi[k] = beta.Dist{Alpha: d.float(), Beta: d.float()}
		}
		s.m, s.beta = d.floats(n), d.floats(n)
		if d.err == nil && !s.valid(&o.config.Prior) {
			d.err = fmt.Errorf("group %d %q is corrupt", i, o.given[i].Name)
		}
		groups[i] = s
	}
	if err := d.end(); err != nil {
		return err
	}
	o.steps, o.skipped, o.groups = steps, skipped, groups
	return nil
}

// setting is a number of the configuration, with its name.
type setting struct {
	name  string
	value float64
}

// settings are those that a state's numbers rest on.
func (o *Optimizer) settings() []setting {
	c := &o.config
	fixed := 0.0
	if c.Fixed != nil {
		fixed = 1
	}
	return []setting{
		{"Prior.Kappa", c.Prior.Kappa}, {"Prior.Alpha", c.Prior.Alpha}, {"Prior.Beta", c.Prior.Beta},
		{"W1.Alpha", c.W1.Alpha}, {"W1.Beta", c.W1.Beta}, {"W2.Alpha", c.W2.Alpha}, {"W2.Beta", c.W2.Beta},
		{"B.Alpha", c.B.Alpha}, {"B.Beta", c.B.Beta}, {"the number of fixed decays", 2 * fixed},
	}
}

// valid reports whether the optimizer can have got to s.
func (s *group) valid(p *Prior) bool {
	if !(s.kappa >= p.Kappa && s.alpha >= p.Alpha && s.kappa+s.alpha < math.Inf(1)) {
		return false
	}
	for _, phi := range s.phi {
		if !(phi.Alpha > 0 && phi.Beta > 0 && phi.Alpha+phi.Beta < math.Inf(1)) {
			return false
		}
	}
	for i, m := range s.m {
		if !(math.Abs(m) <= huge && s.beta[i] > 0 && s.beta[i] < math.Inf(1)) {
			return false
		}
	}
	return true
}

// MarshalBinary encodes what is known of the gradients, for UnmarshalBinary. The
// parameters are not in it.
func (o *Adam) MarshalBinary() ([]byte, error) {
	b := o.head(kindAdam, nil)
	for i, s := range o.groups {
		b = o.groupHead(b, i)
		b = binary.LittleEndian.AppendUint64(b, uint64(s.n))
		b = floats(floats(b, s.m...), s.v...)
	}
	return b, nil
}

// UnmarshalBinary puts the optimizer, which NewAdam has made of groups with the
// same names and lengths, where the encoded one was: what follows is the same to
// the last bit, if the parameters are. All settings are the optimizer's own. After
// an error it is as before.
func (o *Adam) UnmarshalBinary(data []byte) error {
	d := decoder{rest: data}
	steps := d.head(kindAdam, nil)
	skipped := make([]int, len(o.groups))
	groups := make([]moments, len(o.groups))
	for i := range groups {
		n := len(o.given[i].Params)
		skipped[i] = d.groupHead(&o.base, i, 1+2*n)
		s := moments{n: d.count(), m: d.floats(n), v: d.floats(n)}
		for k, m := range s.m {
			if !(math.Abs(m) < math.Inf(1) && s.v[k] >= 0 && s.v[k] < math.Inf(1)) {
				d.fail(fmt.Errorf("group %d %q is corrupt", i, o.given[i].Name))
			}
		}
		groups[i] = s
	}
	if err := d.end(); err != nil {
		return err
	}
	o.steps, o.skipped, o.groups = steps, skipped, groups
	return nil
}

func floats(b []byte, values ...float64) []byte {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// head begins an encoded state.
func (o *base) head(kind byte, settings []setting) []byte {
	b := []byte{kind, stateVersion}
	b = binary.LittleEndian.AppendUint64(b, uint64(o.steps))
	for _, s := range settings {
		b = floats(b, s.value)
	}
	return binary.LittleEndian.AppendUint64(b, uint64(len(o.given)))
}

// groupHead appends what stands before the numbers of group i.
func (o *base) groupHead(b []byte, i int) []byte {
	g := o.given[i]
	b = binary.LittleEndian.AppendUint64(b, uint64(len(g.Name)))
	b = append(b, g.Name...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(g.Params)))
	return binary.LittleEndian.AppendUint64(b, uint64(o.skipped[i]))
}

// A decoder reads an encoded state. After an error it reads zeros.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.rest) {
		d.fail(errors.New("it is cut short"))
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) word() uint64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// count reads a number from zero on.
func (d *decoder) count() int {
	v := d.word()
	if v > math.MaxInt32 {
		d.fail(fmt.Errorf("a count of %d is beyond belief", v))
		return 0
	}
	return int(v)
}

func (d *decoder) float() float64 { return math.Float64frombits(d.word()) }

func (d *decoder) floats(n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = d.float()
	}
	return all
}

// head reads what stands before the groups, and returns the number of steps.
func (d *decoder) head(kind byte, settings []setting) (steps int) {
	b := d.take(2)
	switch {
	case b == nil:
		return 0
	case b[0] != kind:
		d.fail(errors.New("it is that of another optimizer"))
	case b[1] != stateVersion:
		d.fail(fmt.Errorf("its version is %d, this package reads %d", b[1], stateVersion))
	}
	steps = d.count()
	for _, s := range settings {
		if v := d.float(); v != s.value {
			d.fail(fmt.Errorf("it was made with %s = %g, this optimizer has %g", s.name, v, s.value))
		}
	}
	return steps
}

// groupHead reads what stands before the numbers of group i, of which there have
// to be so many, and returns how often it was skipped.
func (d *decoder) groupHead(o *base, i, numbers int) (skipped int) {
	name, length, groups := o.given[i].Name, len(o.given[i].Params), len(o.given)
	if i == 0 {
		if n := d.count(); n != groups {
			d.fail(fmt.Errorf("it has %d groups, this optimizer %d", n, groups))
		}
	}
	if got := string(d.take(d.count())); got != name {
		d.fail(fmt.Errorf("its group %d is %q, this optimizer's %q", i, got, name))
	}
	if n := d.count(); n != length {
		d.fail(fmt.Errorf("its group %d %q has %d parameters, this optimizer's %d", i, name, n, length))
	}
	skipped = d.count()
	if d.err == nil && len(d.rest) < 8*numbers {
		d.fail(errors.New("it is cut short"))
	}
	return skipped
}

func (d *decoder) end() error {
	if d.err == nil && len(d.rest) > 0 {
		d.fail(fmt.Errorf("it has %d bytes too many", len(d.rest)))
	}
	if d.err != nil {
		return fmt.Errorf("adafvf: the state cannot be read: %w", d.err)
	}
	return nil
}
