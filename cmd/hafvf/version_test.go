package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

// The version is the first heading of the changelog.
func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		if code, stdout, stderr := program.Run(t, "", "", arg); code != 0 || !strings.HasPrefix(stdout, "hafvf "+version) || stderr != "" {
			t.Errorf("%s: exit %d, %s%s", arg, code, stdout, stderr)
		}
	}
	text := expect.Get(os.ReadFile("../../CHANGELOG.md"))(t)
	if heading := regexp.MustCompile(`(?m)^## (\S+?)(, .*)?$`).FindSubmatch(text); heading == nil || string(heading[1]) != version {
		t.Errorf("the changelog begins with %q, and the version is %s", heading, version)
	}
}

// Package anyuser is initialised before Beam, which crashes without a user.
func TestAnyuserInitialisedFirst(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, trace)
	}
	ours, beams := strings.Index(string(trace), "init hafvf/internal/anyuser "), strings.Index(string(trace), "init github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/xlangx/expansionx ")
	if ours < 0 || beams < ours {
		t.Errorf("anyuser is initialised at %d, and Beam's expansionx at %d of\n%s", ours, beams, trace)
	}
}
