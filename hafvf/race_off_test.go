//go:build !race

package hafvf

const raced = false
