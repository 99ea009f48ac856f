// Package secret reads secrets from the environment and from files. A config contains only their names.
package secret

import (
	"fmt"
	"os"
	"strings"

	"hafvf/internal/inputfile"
	"hafvf/internal/message"
)

// A Secret names the source of a secret: an environment variable or a file, exactly one of them. Line ends at the
// end of the file are removed. The file may be a pipe, which is read once.
type Secret struct{ Env, File string }

// Largest is the maximum size of a secret in bytes.
const MaxBytes = 64 << 10

// Value reads the secret. key is its key in the config, for errors. Errors never show the secret. They do not show
// the name of a missing source either: it may be the secret itself, written by mistake in place of the name.
func (s Secret) Value(key string) (string, error) {
	switch {
	case s.Env != "" && s.File != "":
		return "", fmt.Errorf("%s: give one of env and file", key)
	case s.Env != "":
		v, ok := os.LookupEnv(s.Env)
		switch {
		case !ok:
			return "", fmt.Errorf("%s.env: the environment variable that it names is not set", key)
		case v == "":
			return "", fmt.Errorf("%s.env: the environment variable %s is empty", key, s.Env)
		case len(v) > MaxBytes:
			return "", fmt.Errorf("%s.env: the environment variable %s has more than %d kB", key, s.Env, MaxBytes>>10)
		}
		return v, nil
	case s.File != "":
		text, _, err := inputfile.Read(s.File, MaxBytes)
		if err != nil {
			return "", fmt.Errorf("%s.file: the file that it names cannot be read: %w", key, message.Cause(err))
		}
		v := strings.TrimRight(string(text), "\r\n")
		if v == "" {
			return "", fmt.Errorf("%s.file: the file %s is empty", key, s.File)
		}
		return v, nil
	}
	return "", fmt.Errorf("%s: the secret has no source: name an environment variable (env) or a file (file)", key)
}

// A Text is a text, or the source of a secret text.
type Text struct {
	Text string
	Secret
}

// Read returns the text, or reads the secret. key is its key in the config, for errors.
func (t Text) Read(key string) (string, error) {
	if t.Secret == (Secret{}) {
		return t.Text, nil
	}
	return t.Secret.Value(key)
}

// Where describes the source of the secret.
func (s Secret) Where() string {
	if s.Env != "" {
		return "the environment variable " + s.Env
	}
	return "the file " + s.File
}

// Path returns the config key of the source, given the key of the secret.
func (s Secret) Path(key string) string {
	switch {
	case s.Env != "":
		return key + ".env"
	case s.File != "":
		return key + ".file"
	}
	return key
}
