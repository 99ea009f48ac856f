// Package inspect looks at the first records of a file: Draft writes a config for them, which
// is what hafvf init does, and LookAt says what a config gets of them, as hafvf check does.
package inspect
