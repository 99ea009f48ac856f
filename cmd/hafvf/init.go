package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"hafvf/cmd/internal/cli"
	"hafvf/internal/message"
	"hafvf/pipeline/sniff"
)

func initCommand() *cobra.Command {
	var output, query string
	cmd := &cobra.Command{
		Use:     "init FILE | init URL --query QUERY",
		Short:   "Write a config for a file of observations, or for a query to Prometheus",
		Long:    help("init"),
		Example: "  hafvf init pressure.csv > pump.yaml\n  hafvf init pressure.csv -o pump.yaml\n  hafvf init http://localhost:9090 --query 'rate(node_network_receive_bytes_total[5m])'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := draftOf(args[0], query)
			if err != nil {
				return err
			}
			if err := writeDraft(cmd, output, d.Config); err != nil {
				return err
			}
			for _, r := range d.Remarks {
				fmt.Fprintf(cmd.ErrOrStderr(), "remark   %s\n", r)
			}
			if !d.Sure() {
				return errors.New("the config is written but probably wrong: see the remarks")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&query, "query", "", "the `QUERY`, in PromQL, for the server at the URL")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this `FILE`, which must not exist, instead of standard output")
	return cmd
}

// writeDraft writes a config to a new file or, without a name, to standard output.
func writeDraft(cmd *cobra.Command, output string, text []byte) error {
	if output == "" {
		fmt.Fprintf(cmd.OutOrStdout(), "%s", text)
		return nil
	}
	f, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return cli.UsageError(fmt.Errorf("%s already exists: give another name, or remove it", output))
	}
	if err != nil {
		return message.CannotWrite(output, err)
	}
	_, err = f.Write(text)
	if err = cmp.Or(err, f.Close()); err != nil {
		os.Remove(output) // the next attempt fails if the file exists
		return message.CannotWrite(output, err)
	}
	return nil
}

// draftOf drafts a config for a file, or for a query to the server at a URL.
func draftOf(source, query string) (sniff.Drafted, error) {
	isURL := strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://")
	switch {
	case isURL && query == "":
		return sniff.Drafted{}, cli.UsageError(errors.New("a URL needs a query: give one, such as --query 'rate(requests_total[5m])'"))
	case !isURL && query != "":
		return sniff.Drafted{}, cli.UsageError(fmt.Errorf("%s is not an http:// or https:// URL: --query needs one", source))
	case isURL:
		return sniff.DraftQuery(source, query)
	}
	return sniff.Draft(source)
}
