//go:build !linux

package prism

import (
	"errors"
	"net"
)

// A guard is for Linux.
type guard struct{}

var errPlatform = errors.New("that takes Linux")

func newGuard() (*guard, error)                  { return nil, errPlatform }
func (g *guard) endpoint() string                { return "" }
func (g *guard) around(start func() error) error { return errPlatform }

func listenPool() (net.Listener, string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	return l, l.Addr().String(), nil
}

// DenyPrograms keeps this process from starting programs. It takes Linux.
func DenyPrograms() error { return &UnprotectedError{errPlatform} }
