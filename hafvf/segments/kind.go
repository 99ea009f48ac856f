package segments

// A Kind is a model of the values of a whole session.
type Kind int

const (
	// NoKind is the kind of a session that is not of the family normal, or has more than 1,500 observations.
	NoKind Kind = iota
	// Levels is a level that is constant between changes, under white noise.
	Levels
	// Correlated is such a level, under noise with a correlation between neighbours.
	Correlated
	// Walk is a level that walks between changes, under white noise.
	Walk
	// Line is a straight line without changes, under white noise.
	Line
	kindCount
)

// String returns the name of the kind; NoKind has none.
func (k Kind) String() string {
	return [kindCount]string{Levels: "levels", Correlated: "correlated", Walk: "walk", Line: "line"}[k]
}

// Kind returns the kind with the largest evidence in a session, and by how many nats it exceeds the next one. The
// evidence is summed over all segmentations. That of the next kind is for a session without changes if this kind is
// Walk, Line, or Correlated while constant levels leave white noise.
func (g *Segmentation) Kind() (kind Kind, against float64) { return g.kind, g.against }

// A process is a model of the values in the segments of a session.
type process struct {
	explanation
	correlation float64 // of the noise between neighbours
	kind        Kind
}

// processes are the possible processes of a session of normal values.
var processes = [...]process{
	{constant, 0, Levels},
	{slowWalk, 0, Walk},
	{walk, 0, Walk},
	{fastWalk, 0, Walk},
	{line, 0, Line},
	{autoregression, .25, Correlated},
	{autoregression, .5, Correlated},
	{autoregression, .65, Correlated},
	{autoregression, .8, Correlated},
	{autoregression, 1, Walk},
}

// isFast reports whether the level walks by as much as the noise, so that it explains every change.
func (p *process) isFast() bool { return p.explanation == fastWalk || p.correlation == 1 }

// price returns the nats by which a process is less probable than constant levels under white noise, in a session of
// n observations with or without changes. Noise is less often correlated if levels are designed. In a long session a
// slow walk resembles a single small step, which is more frequent.
func (p *process) price(n int, changes, levelsOnly bool) float64 {
	switch {
	case p.kind == Levels:
		return 0
	case p.kind == Correlated && levelsOnly:
		return 2.5
	case p.kind == Correlated || changes:
		return 1
	}
	return 4.5 - 3.5*shortness(n)
}
