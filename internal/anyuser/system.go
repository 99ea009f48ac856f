//go:build !osusergo && (darwin || cgo)

package anyuser

// asksSystem reports whether package os/user asks the system's library for users.
const asksSystem = true
