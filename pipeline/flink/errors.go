package flink

import (
	"errors"
	"strings"
)

// ErrOtherSteps means that a savepoint has the state of a step that the pipeline lacks.
var ErrOtherSteps = errors.New("the savepoint belongs to another job: it has the state of a step that this job lacks")

// clusterError returns an error with the given text. It wraps ErrOtherSteps or final if the text contains the text of
// that error.
func clusterError(text string, final error) error {
	for _, sentinel := range []error{ErrOtherSteps, final} {
		if contains(text, sentinel) {
			return &failure{text, sentinel}
		}
	}
	return errors.New(text)
}

func contains(text string, err error) bool { return err != nil && strings.Contains(text, err.Error()) }

// A failure is an error that the cluster returned as text, and the sentinel that the text contains.
type failure struct {
	text     string
	sentinel error
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.sentinel }

// explain describes a stack trace of a cluster in a sentence, with the remedy if it is known.
func explain(trace string) string {
	const jars = "JobManager and TaskManagers lack jars that the job server has: put the jars of Beam's runner into their lib"
	cause := rootCause(trace)
	for _, w := range []struct{ sign, means string }{
		{"NoResourceAvailableException", "the cluster has no slots for the job: start more TaskManagers, or set a lower runner.parallelism"},
		{"Cannot map checkpoint/savepoint state", ErrOtherSteps.Error() + "; resume with the topics, model.family, model.scale and runner.cells with which it was taken, and with lateness or silence only if it had one of them, or start without the savepoint"},
		{"Failed to rollback to checkpoint/savepoint", "the job cannot resume from the savepoint"},
		{"Cannot find checkpoint or savepoint file/directory", "there is no savepoint at this path"},
		{"Cannot find meta data file '_metadata'", "there is no savepoint at this path"},
		{"max parallelism", "the savepoint was taken with another runner.max_parallelism, which its state requires"},
		{"InvalidClassException", "job server and cluster have different releases of Flink or Beam"},
		{"ClassNotFoundException", jars},
		{"NoClassDefFoundError", jars},
		{"TaskManager with id", "a TaskManager was lost"},
		{"because the recipient is unreachable", "a TaskManager was lost"},
		{"Connection unexpectedly closed by remote task manager", "a TaskManager was lost"},
	} {
		if strings.Contains(trace, w.sign) {
			return w.means + " (" + cause + ")"
		}
	}
	if strings.Contains(trace, "ExternalEnvironmentFactory") && strings.Contains(trace, "UNAVAILABLE") {
		return "no worker answers where the TaskManager looks for it (runner.worker): run hafvf worker next to each TaskManager (" + cause + ")"
	}
	for _, sign := range []string{"call already cancelled", "SDK Harness connection lost", "Multiplexer hanging up"} {
		if strings.Contains(trace, sign) {
			return "a worker was lost (" + cause + ")"
		}
	}
	return cause
}

// rootCause returns the last cause in a Java or Go stack trace, in a sentence.
func rootCause(trace string) string {
	if i := strings.LastIndex(trace, "caused by:\n"); i >= 0 {
		// error of one of our functions, in the format of Beam's Go harness
		text := trace[i+len("caused by:\n"):]
		if function, cause, ok := strings.Cut(text, " failed:\n"); ok && strings.HasPrefix(function, "DoFn[") {
			text = cause
		}
		return strings.TrimSpace(firstParagraph(text))
	}
	text := trace
	if i := strings.LastIndex(trace, "Caused by: "); i >= 0 {
		text = trace[i+len("Caused by: "):]
	}
	text = strings.TrimPrefix(firstParagraph(text), "<Exception on server side:\n")
	for {
		// java.lang.RuntimeException: message
		class, rest, ok := strings.Cut(text, ": ")
		if !ok || strings.ContainsAny(class, " \t") || !strings.Contains(class, ".") {
			break
		}
		text = rest
	}
	return strings.TrimSpace(text)
}

// firstParagraph cuts a trace before its lines "at class.method".
func firstParagraph(text string) string {
	for _, end := range []string{"\n\tat ", "\n\nat ", "\n    at ", "\n\t... "} {
		text, _, _ = strings.Cut(text, end)
	}
	return text
}
