package flinktest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ownGroup makes the process the first of a group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// groupMembers returns the processes of a group and their programs.
func groupMembers(group int) map[int]string {
	found := map[int]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it ended
		}
		// The program's name, in parentheses, can hold anything; after it
		// come the state, the parent, and the group.
		var state string
		var parent, its int
		rest := string(text[strings.LastIndexByte(string(text), ')')+1:])
		if _, err := fmt.Sscan(rest, &state, &parent, &its); err != nil || its != group {
			continue
		}
		program, err := os.Readlink(filepath.Join(filepath.Dir(name), "exe"))
		if err != nil {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		found[pid] = strings.TrimSuffix(program, " (deleted)")
	}
	return found
}
