//go:build race

package hafvf

// raced says that the race detector is on. What the compiler puts on the stack without it
// may be allocated then.
const raced = true
