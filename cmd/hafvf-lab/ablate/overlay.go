package ablate

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed overlay
var added embed.FS

var offWord = regexp.MustCompile(`\boff\b`)

// Sources returns the edited and added files of the worker by their path in the module, whose root is at root.
func Sources(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	apply := func(e edit, name string) error {
		file := "hafvf/" + e.file
		if files[file] == nil {
			original, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				return err
			}
			files[file] = original
		}
		if n := bytes.Count(files[file], []byte(e.find)); n != 1 {
			return fmt.Errorf("%s: %s has the text %d times, not once:\n%s", name, file, n, e.find)
		}
		field := "Off." + name
		if path.Dir(e.file) == "keyed" {
			field = "off." + name
		}
		files[file] = bytes.Replace(files[file], []byte(e.find), []byte(offWord.ReplaceAllString(e.replacement, field)), 1)
		return nil
	}
	if err := apply(withoutFilter, "the filter"); err != nil {
		return nil, err
	}
	var switches []string
	for _, m := range Mechanisms {
		switches = append(switches, m.Name)
		for _, e := range m.edits {
			if err := apply(e, m.Name); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range [][2]string{{"usual", "hafvf/usual/off.go"}, {"keyed", "hafvf/keyed/off.go"}, {"main", workerPackage + "/main.go"}} {
		text, err := added.ReadFile("overlay/" + f[0] + ".go.txt")
		if err != nil {
			return nil, err
		}
		files[f[1]] = text
	}
	files["hafvf/usual/switches.go"] = fmt.Appendf(nil, "package usual\n\ntype Switches struct{ %s bool }\n", strings.Join(switches, ", "))
	return files, nil
}

const workerPackage = "cmd/hafvf-lab/ablate/worker"

// Build builds the worker in the folder dir, from the sources of the current module.
func Build(ctx context.Context, dir string) (program string, err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Module.Dir}}", "hafvf/hafvf/usual").Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("go list: %s: the command has to run in the sources of hafvf", bytes.TrimSpace(exit.Stderr))
	} else if err != nil {
		return "", err
	}
	root := strings.TrimSpace(string(out))
	files, err := Sources(root)
	if err != nil {
		return "", err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for file, text := range files {
		copied := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, file)] = copied
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "worker")
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", list, "-o", program, "./"+workerPackage)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return program, nil
}
