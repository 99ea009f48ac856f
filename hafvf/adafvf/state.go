package adafvf

import (
	"encoding/binary"
	"fmt"
	"math"

	"hafvf/internal/compact"
)

// An encoded state consists of a kind, a version, the settings on which the meaning of its numbers depends, and
// per group its name, length and numbers, little endian. It does not contain the parameters: the caller must
// save them.
const stateVersion = 1

const (
	kindAdaFVF = 'F'
	kindAdam   = 'A'
)

// MarshalBinary encodes the state of the optimizer for UnmarshalBinary, without the parameters.
func (o *Optimizer) MarshalBinary() ([]byte, error) {
	return marshal(&o.base, o.groups, o.serialize), nil
}

// UnmarshalBinary restores an encoded state. The optimizer must come from New with groups of the same names and
// lengths. With the same parameters, all later steps are equal to the last bit. Rate, schedule, weight decay,
// pooling and coordinates are not part of the state. Another prior or other levels are an error. After an error
// the optimizer is unchanged.
func (o *Optimizer) UnmarshalBinary(data []byte) error {
	return unmarshal(&o.base, &o.groups, o.serialize, data)
}

func (o *Optimizer) serialize(c *codec, i, n int, s *group) {
	if i == 0 {
		c.head(&o.base, kindAdaFVF, o.settings())
	}
	c.groupHead(&o.base, i, 8+2*n)
	c.floats(&s.kappa, &s.alpha)
	for k := range s.phi {
		c.floats(&s.phi[k].Alpha, &s.phi[k].Beta)
	}
	c.vectors(n, &s.m, &s.beta)
	if c.err == nil && !c.Writes && !s.valid(&o.config.Prior) {
		c.fail("group %d %q is corrupt", i, o.inputs[i].Name)
	}
}

// setting is a number of the configuration, with its name.
type setting struct {
	name  string
	value float64
}

// settings returns the settings on which the numbers of a state depend.
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

// valid reports whether s is a possible state of the optimizer.
func (s *group) valid(p *Prior) bool {
	if !(s.kappa >= p.Kappa && s.alpha >= p.Alpha && s.kappa <= huge && s.alpha <= huge) {
		return false
	}
	for _, phi := range s.phi {
		if !computable(phi.Alpha, phi.Beta) {
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

// MarshalBinary encodes the state of the optimizer for UnmarshalBinary, without the parameters.
func (o *Adam) MarshalBinary() ([]byte, error) { return marshal(&o.base, o.groups, o.serialize), nil }

// UnmarshalBinary restores an encoded state. The optimizer must come from NewAdam with groups of the same names
// and lengths. With the same parameters, all later steps are equal to the last bit. Settings are not part of
// the state. After an error the optimizer is unchanged.
func (o *Adam) UnmarshalBinary(data []byte) error {
	return unmarshal(&o.base, &o.groups, o.serialize, data)
}

func (o *Adam) serialize(c *codec, i, n int, s *moments) {
	if i == 0 {
		c.head(&o.base, kindAdam, nil)
	}
	c.groupHead(&o.base, i, 1+2*n)
	c.count(&s.n)
	c.vectors(n, &s.m, &s.v)
	for k, m := range s.m {
		if !c.Writes && !(math.Abs(m) < math.Inf(1) && s.v[k] >= 0 && s.v[k] < math.Inf(1)) {
			c.fail("group %d %q is corrupt", i, o.inputs[i].Name)
		}
	}
}

// marshal encodes the groups of an optimizer. serialize encodes or decodes group i, which has n parameters.
func marshal[G any](o *base, groups []G, serialize func(c *codec, i, n int, s *G)) []byte {
	c := codec{Codec: compact.Codec{Writes: true}, steps: o.steps, skipped: o.skipped}
	for i := range groups {
		serialize(&c, i, len(o.inputs[i].Params), &groups[i])
	}
	return c.B
}

// unmarshal decodes the output of marshal. After an error the optimizer is unchanged.
func unmarshal[G any](o *base, groups *[]G, serialize func(c *codec, i, n int, s *G), data []byte) error {
	c := codec{Codec: compact.Codec{Reader: compact.Reader{B: data}}, skipped: make([]int, len(o.inputs))}
	read := make([]G, len(o.inputs))
	for i := range read {
		serialize(&c, i, len(o.inputs[i].Params), &read[i])
	}
	if len(c.B) > 0 {
		c.fail("it has %d bytes too many", len(c.B))
	}
	if c.err != nil {
		return fmt.Errorf("adafvf: cannot read state: %w", c.err)
	}
	o.steps, o.skipped, *groups = c.steps, c.skipped, read
	return nil
}

// A codec writes a state, or reads one. After an error it reads zeros.
type codec struct {
	compact.Codec
	steps   int
	skipped []int
	err     error
}

// fail stores the first error.
func (c *codec) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
	c.Fail()
}

func (c *codec) raw(b []byte) {
	if c.Raw(b); c.Bad {
		c.fail("it is too short")
	}
}

func (c *codec) word(v *uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], *v)
	c.raw(b[:])
	*v = binary.LittleEndian.Uint64(b[:])
}

// count encodes or decodes a nonnegative number.
func (c *codec) count(n *int) {
	v := uint64(*n)
	if c.word(&v); v > math.MaxInt32 {
		c.fail("a count of %d is too large", v)
		v = 0
	}
	*n = int(v)
}

func (c *codec) floats(values ...*float64) {
	for _, f := range values {
		v := math.Float64bits(*f)
		c.word(&v)
		*f = math.Float64frombits(v)
	}
}

func (c *codec) vectors(n int, vectors ...*[]float64) {
	for _, v := range vectors {
		if !c.Writes {
			*v = make([]float64, n)
		}
		for i := range *v {
			c.floats(&(*v)[i])
		}
	}
}

// head encodes the part before the groups or, when reading, checks it against the optimizer.
func (c *codec) head(o *base, kind byte, settings []setting) {
	b := []byte{kind, stateVersion}
	if c.raw(b); b[0] != kind {
		c.fail("it belongs to another optimizer")
	} else if b[1] != stateVersion {
		c.fail("its version is %d, this package reads %d", b[1], stateVersion)
	}
	c.count(&c.steps)
	for _, s := range settings {
		v := s.value
		if c.floats(&v); math.Float64bits(v) != math.Float64bits(s.value) {
			c.fail("it was written with %s = %g, this optimizer has %g", s.name, v, s.value)
		}
	}
	n := len(o.inputs)
	if c.count(&n); n != len(o.inputs) {
		c.fail("it has %d groups, this optimizer has %d", n, len(o.inputs))
	}
}

// groupHead encodes the part before the numbers of group i or, when reading, checks it against the group.
// numbers is the expected number of floats.
func (c *codec) groupHead(o *base, i, numbers int) {
	name, length := o.inputs[i].Name, len(o.inputs[i].Params)
	n, got := len(name), []byte(name)
	if c.count(&n); !c.Writes {
		got = make([]byte, min(n, len(c.B)+1))
	}
	if c.raw(got); string(got) != name {
		c.fail("its group %d is %q, this optimizer's is %q", i, got, name)
	}
	n = length
	if c.count(&n); n != length {
		c.fail("its group %d %q has %d parameters, this optimizer's has %d", i, name, n, length)
	}
	if c.count(&c.skipped[i]); !c.Writes && len(c.B) < 8*numbers {
		c.fail("it is too short")
	}
}
