package methods

import "testing"

// BenchmarkUpdate is the time of an update of each method on normal values, with what New
// costs spread over them.
func BenchmarkUpdate(b *testing.B) {
	x := normals(4000)
	for _, m := range All {
		b.Run(m.Name, func(b *testing.B) {
			s, err := Begin("normal", x[:50])
			if err != nil {
				b.Fatal(err)
			}
			s.Whole = x
			b.ReportAllocs()
			var f Follower
			for i := 0; b.Loop(); i++ {
				if i%len(x) == 0 {
					f = m.New(s)
				}
				f.Update(x[i%len(x)])
			}
		})
	}
}
