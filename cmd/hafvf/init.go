package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"hafvf/pipeline/inspect"
)

func initCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "init FILE",
		Short: "Write a config for a file of observations",
		Long: `Init looks at the first records of a CSV, JSON Lines or Parquet file. It guesses the
columns of key, time and value, and their forms, also of wide tables, exports of metrics,
shares and raw events. It writes a config with comments to standard output. The
extension gives the format.

Exit: 0 done, 1 the file cannot be read or holds no numbers, 2 usage.`,
		Example: "  hafvf init pressure.csv > pump.yaml\n  hafvf init pressure.csv -o pump.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := inspect.Draft(args[0])
			if err != nil {
				return err
			}
			if output == "" {
				fmt.Fprintf(cmd.OutOrStdout(), "%s", text)
				return nil
			}
			f, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
			if errors.Is(err, fs.ErrExist) {
				return usageError{fmt.Errorf("%s exists already: give another name, or remove it", output)}
			}
			if err != nil {
				return err
			}
			_, err = f.Write(text)
			return errors.Join(err, f.Close())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this `FILE`, which must not exist, in place of standard output")
	return cmd
}
