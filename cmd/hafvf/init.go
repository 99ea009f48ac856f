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
		Use:   "init FILE | init URL --query QUERY",
		Short: "Write a config for a file of observations, or for a query to Prometheus",
		Long: `Init looks at some ten thousand records of a CSV, JSON Lines or Parquet file: at its
beginning and at nine places all over it, or at its beginning if it is compressed. It
guesses the columns of key, time and value, and their forms, also of wide tables, exports
of metrics, shares, counters and raw events. Then it reads the records with the config
that it has made. It writes the config with comments to standard output, and what it is
not sure of to standard error. The extension gives the format.

With --query it asks the Prometheus at URL, or what has its API, and looks at the last
points of the query. Labels that vary, but not from each series to the next, make the
groups of incidents.

Exit: 0 done, 1 the config is written and likely wrong, or the data cannot be read or
holds no numbers, 2 usage. A config is likely wrong if more than a tenth of the records
are late or rejected, if more than half of the keys have one record, if the times of a key
repeat throughout, or if something else fits as well as what was guessed.`,
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
				return errors.New("the config is written, and is likely wrong: see the remarks")
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&query, "query", "", "the `QUERY`, in PromQL, that is asked at the URL")
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this `FILE`, which must not exist, in place of standard output")
	return cmd
}

// writeDraft writes a config to a new file, or without a name to standard output.
func writeDraft(cmd *cobra.Command, output string, text []byte) error {
	if output == "" {
		fmt.Fprintf(cmd.OutOrStdout(), "%s", text)
		return nil
	}
	f, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return cli.Usage(fmt.Errorf("%s exists already: give another name, or remove it", output))
	}
	if err != nil {
		return message.CannotWrite(output, err)
	}
	_, err = f.Write(text)
	if err = cmp.Or(err, f.Close()); err != nil {
		os.Remove(output) // the next attempt wants no file there
		return message.CannotWrite(output, err)
	}
	return nil
}

// draftOf drafts a config for a file, or for a query to the server at a URL.
func draftOf(from, query string) (sniff.Drafted, error) {
	isURL := strings.HasPrefix(from, "http://") || strings.HasPrefix(from, "https://")
	switch {
	case isURL && query == "":
		return sniff.Drafted{}, cli.Usage(errors.New("give the query that the server is asked, as --query 'rate(requests_total[5m])'"))
	case !isURL && query != "":
		return sniff.Drafted{}, cli.Usage(fmt.Errorf("%s is no URL of http:// or https://, which --query asks", from))
	case isURL:
		return sniff.DraftQuery(from, query)
	}
	return sniff.Draft(from)
}
