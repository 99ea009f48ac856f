package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hafvf/cmd/internal/cli"
	"hafvf/internal/testing/e2e"
	"hafvf/internal/testing/expect"
)

func TestExperimentFiles(t *testing.T) {
	dir := t.TempDir()
	code, stdout, stderr := program.Run(t, dir, "", "experiment", "binary", "--seed", "5", "--out", "new/figures")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, standard error %q", code, stderr)
	}
	for ext, start := range map[string]string{".csv": "trial,p_true,x,incremental_p_mean,", ".svg": "<?xml", ".png": "\x89PNG", ".txt": "Binary learning"} {
		path := filepath.Join("new/figures", "binary"+ext)
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil || !strings.HasPrefix(string(text), start) {
			t.Errorf("%s begins %.40q, error %v", path, text, err)
		}
		if !strings.Contains(stdout, "written: "+path+"\n") {
			t.Errorf("standard output does not name %s", path)
		}
		if ext == ".txt" && !strings.HasPrefix(stdout, string(text)) {
			t.Error("standard output does not begin with the table")
		}
	}
	if !strings.Contains(stdout, "seeds 5 to 24") || !strings.Contains(stdout, " 20 of 20\n") {
		t.Errorf("%s", stdout)
	}
	expect.Same(t, 4, len(expect.Get(os.ReadDir(filepath.Join(dir, "new/figures")))(t)), "files")
}

func TestExperimentExitCodes(t *testing.T) {
	dir := e2e.Folder(t, map[string]string{"file": ""})
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{nil, 0, "  ar  ", ""},
		{[]string{"recovery", "--subjects", "1", "--trials", "20"}, 0, "1 subjects of 20 trials each, seed 1\n\nmean  sum ", ""},
		{[]string{"bniary"}, cli.ExitUsage, "", `no experiment "bniary"; the nearest is "binary"`},
		{[]string{"sdg"}, cli.ExitUsage, "", `the nearest is "sgd"`},
		{[]string{"sgd", "--out", "file"}, cli.ExitFailed, "", "mkdir file: not a directory"},
		{[]string{"rl", "more"}, cli.ExitUsage, "", "unknown command"},
		{[]string{"rl", "--seed", "x"}, cli.ExitUsage, "", "invalid argument"},
		{[]string{"rl", "--out", "file"}, cli.ExitFailed, "", "mkdir file: not a directory"},
	} {
		code, stdout, stderr := program.Run(t, dir, "", append([]string{"experiment"}, c.args...)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v: exit %d, standard output %q, standard error %q", c.args, code, stdout, stderr)
		}
	}
}

// A signal stops the training, which saves its state; the same command resumes from there.
func TestExperimentSGDResumes(t *testing.T) {
	expect.Long(t, "a training")
	dir := t.TempDir()
	checkpointSize := func() (size int64) {
		files := expect.Get(filepath.Glob(filepath.Join(dir, "sgd.checkpoint", "*.gob")))(t)
		for _, f := range files {
			if info, err := os.Stat(f); err == nil {
				size += info.Size()
			}
		}
		return size
	}
	before := int64(0)
	for range 2 {
		d := program.Start(t, nil, "experiment", "sgd", "--quick", "--out", dir)
		d.Eventually(t, "a checkpoint with more progress", func() bool { return checkpointSize() > before })
		d.Stop(t)
		if !strings.Contains(d.Log(), "stopped: the same command resumes from here") {
			t.Errorf("%s", d.Log())
		}
		if now := checkpointSize(); now <= before {
			t.Errorf("%d bytes of checkpoints after %d", now, before)
		} else {
			before = now
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "sgd.*")); err != nil || len(files) != 1 {
		t.Errorf("files %v, error %v", files, err)
	}
}
