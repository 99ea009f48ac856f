package deploy_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"hafvf/internal/testing/expect"
)

// The profile for release builds names existing packages of this module. After a move, run go generate ./cmd/hafvf
// to update it.
func TestProfileNamesPackages(t *testing.T) {
	expect.Long(t, "lists of all packages")
	expect.Get(os.Stat("hafvf.pgo"))(t) // makes go test run again when it changes
	text := expect.Get(exec.Command("go", "tool", "pprof", "-raw", "-symbolize=none", "hafvf.pgo").Output())(t)
	exists := map[string]bool{}
	for _, path := range strings.Fields(string(expect.Get(exec.Command("go", "list", "-tags", "flink", "hafvf/...").Output())(t))) {
		exists[path] = true
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m) (hafvf(?:/[a-z0-9]+)+)\.\S+ hafvf/\S+\.go:`).FindAllSubmatch(text, -1) {
		if path := string(m[1]); !named[path] {
			if named[path] = true; !exists[path] {
				t.Errorf("hafvf.pgo names the package %s, which does not exist", path)
			}
		}
	}
	if len(named) < 10 {
		t.Errorf("%d packages are named", len(named))
	}
}

// The image build has the profile that its go build names: the .dockerignore does not exclude it. The last pattern that matches a path
// decides, and a pattern also matches all paths below it.
func TestImageHasProfile(t *testing.T) {
	m := regexp.MustCompile(`-pgo=(\S+)`).FindSubmatch(expect.Get(os.ReadFile("Dockerfile"))(t))
	if m == nil {
		t.Fatal("the Dockerfile builds without a profile")
	}
	profile, excluded := string(m[1]), false
	for line := range strings.Lines(string(expect.Get(os.ReadFile("Dockerfile.dockerignore"))(t))) {
		pattern, exception := strings.CutPrefix(strings.TrimSpace(line), "!")
		if pattern == profile || pattern != "" && strings.HasPrefix(profile, pattern+"/") {
			excluded = !exception
		}
	}
	if excluded {
		t.Errorf("Dockerfile.dockerignore excludes %s", profile)
	}
}
