//go:build !osusergo && (darwin || cgo)

package anyuser

// asksSystem is true if package os/user calls the system library to find users.
const asksSystem = true
