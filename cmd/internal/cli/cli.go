// Package cli is what the commands of this module share: exit codes, and how a config is loaded.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"hafvf/connectors"
	"hafvf/internal/message"
	"hafvf/pipeline"
	"hafvf/pipeline/config"
)

// Exit codes.
const (
	ExitFailed = 1 // the run failed
	ExitUsage  = 2 // usage or config
	// ExitReaderGone is what a shell makes of a program that SIGPIPE has ended.
	ExitReaderGone = 128 + 13
)

// An exitError has an exit code of its own.
type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }

// Usage makes an error one of usage or config, which is the user's.
func Usage(err error) error { return exitError{err, ExitUsage} }

// Ended makes an error one of a signal that has ended a command before it had what it was asked for: the exit
// code is 128 and the signal's number, as a shell has it.
func Ended(by os.Signal, err error) error {
	number, _ := by.(syscall.Signal)
	return exitError{err, 128 + int(number)}
}

// Run executes the command of args, and returns the exit code of the process.
func Run(root *cobra.Command, args []string, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usage(err) })
	root.SetArgs(args)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, of []string) error { // cobra's says that in a sentence, and exits with 0
			_, _, err := root.Find(of)
			return err
		}
	}
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return 0
	}
	ended, coded := errors.AsType[exitError](err)
	switch {
	case isCobraUsage(err):
		err = fmt.Errorf("%w\nsee: %s --help", err, cmd.CommandPath())
		ended.code = ExitUsage
	case coded:
	case errors.Is(err, connectors.ErrReaderGone):
		return ExitReaderGone
	default:
		ended.code = ExitFailed
	}
	fmt.Fprintf(stderr, "%s: %s\n", root.Name(), message.Bound(err.Error()))
	return ended.code
}

// isCobraUsage reports whether cobra itself refused the command line; it has no
// type for that.
func isCobraUsage(err error) bool {
	starts := []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "required flag", "flag needs", "invalid argument"}
	return slices.ContainsFunc(starts, func(start string) bool { return strings.HasPrefix(err.Error(), start) })
}

// AddSet adds the flag that overrides values of a config.
func AddSet(cmd *cobra.Command, set *[]string) {
	cmd.Flags().StringArrayVar(set, "set", nil, "override a value of the config, as `a.b=c`; may be repeated")
}

// Load reads the config at path, "-" being standard input, and composes it.
func Load(path string, set []string) (*config.Config, *pipeline.Graph, error) {
	text, err := readConfig(path)
	if err != nil {
		return nil, nil, Usage(err)
	}
	cfg, graph, err := Compose(path, text, set)
	if err == nil && path == "-" && graph.StandardInput() {
		err = Usage(errors.New("standard input holds the config, and the config reads its records from there: give one of them as a file"))
	}
	return cfg, graph, err
}

// Compose parses the text of a config, and composes it.
func Compose(name string, text []byte, set []string) (*config.Config, *pipeline.Graph, error) {
	cfg, err := config.Parse(name, text, set)
	if err != nil {
		return nil, nil, Usage(err)
	}
	graph, err := pipeline.Compose(cfg)
	if err != nil {
		return nil, nil, Usage(fmt.Errorf("%s: %w", name, err))
	}
	return cfg, graph, nil
}

// maxConfigRead is a little more than Parse accepts, so that it can refuse what
// is larger without all of it being read.
const maxConfigRead = 2 << 20

func readConfig(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(io.LimitReader(os.Stdin, maxConfigRead))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxConfigRead))
}
