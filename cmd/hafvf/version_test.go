package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The version is that of the changelog's first heading.
func TestVersion(t *testing.T) {
	code, stdout, _ := program.Run(t, "", "", "version")
	if code != 0 || !strings.HasPrefix(stdout, "hafvf "+version) {
		t.Errorf("exit %d, %s", code, stdout)
	}
	text, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if heading := regexp.MustCompile(`(?m)^## (\S+?)(, .*)?$`).FindSubmatch(text); heading == nil || string(heading[1]) != version {
		t.Errorf("the changelog begins with %q, and the version is %s", heading, version)
	}
}
