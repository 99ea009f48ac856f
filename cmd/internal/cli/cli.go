// Package cli provides exit codes and the loading of configs to the commands of this module.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	// ExitReaderGone is the exit code that a shell reports for a program ended by SIGPIPE.
	ExitReaderGone = 128 + 13
)

// An exitError is an error with its own exit code.
type exitError struct {
	error
	code int
}

func (e exitError) Unwrap() error { return e.error }

// UsageError marks err as an error of usage or config, with exit code ExitUsage.
func UsageError(err error) error { return exitError{err, ExitUsage} }

// Interrupted marks err as the error of a command that a signal ended early. The exit code is 128 plus the signal's
// number, as in a shell.
func Interrupted(signal os.Signal, err error) error {
	number, _ := signal.(syscall.Signal)
	return exitError{err, 128 + int(number)}
}

// Run executes the command in args, writes its error to stderr, and returns the exit code of the process.
func Run(root *cobra.Command, args []string, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError(err) })
	root.SetArgs(args)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, command []string) error { // cobra's own check prints a sentence and exits with 0
			_, _, err := root.Find(command)
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

// isCobraUsage reports whether cobra refused the command line. Such errors have no type.
func isCobraUsage(err error) bool {
	starts := []string{"unknown command", "unknown flag", "unknown shorthand", "accepts ", "requires ", "required flag", "flag needs", "invalid argument"}
	return slices.ContainsFunc(starts, func(start string) bool { return strings.HasPrefix(err.Error(), start) })
}

// AddSet adds the flag --set, which overrides values of a config.
func AddSet(cmd *cobra.Command, set *[]string) {
	cmd.Flags().StringArrayVar(set, "set", nil, "override a value of the config, as `a.b=c`; may be repeated")
}

// Load reads and composes the config at path. "-" is standard input. Errors of the config are usage errors. Where the
// path has the extension of another file, they say how to write a config for data.
func Load(path string, set []string) (*config.Config, *pipeline.Graph, error) {
	text, err := readConfig(path)
	if err != nil {
		return nil, nil, UsageError(err)
	}
	cfg, graph, err := Compose(path, text, set)
	if ext := filepath.Ext(path); err != nil && !slices.Contains([]string{"", ".yaml", ".yml"}, ext) {
		data := connectors.Unpacked(path)
		err = UsageError(fmt.Errorf("%s cannot be read as a config. If it is data, type hafvf init %[1]s -o %s.yaml, and give that file here. %w", path, strings.TrimSuffix(data, filepath.Ext(data)), err))
	}
	if err == nil && path == "-" && graph.StandardInput() {
		err = UsageError(errors.New("config and records are both read from standard input: use a file for one of them"))
	}
	return cfg, graph, err
}

// Compose parses and composes the text of a config.
func Compose(name string, text []byte, set []string) (*config.Config, *pipeline.Graph, error) {
	cfg, err := config.Parse(name, text, set)
	if err != nil {
		return nil, nil, UsageError(err)
	}
	graph, err := pipeline.Compose(cfg)
	if err != nil {
		return nil, nil, UsageError(fmt.Errorf("%s: %w", name, err))
	}
	return cfg, graph, nil
}

// maxConfigRead is more than the limit of config.Parse, so that Parse can refuse larger configs without reading all
// of them.
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
