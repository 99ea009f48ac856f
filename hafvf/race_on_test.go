//go:build race

package hafvf

// raced reports whether the race detector is on. With it, values may be allocated that the compiler otherwise
// puts on the stack.
const raced = true
