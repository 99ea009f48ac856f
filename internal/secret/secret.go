// Package secret reads secrets from where they stand: never from a config.
package secret

import (
	"fmt"
	"os"
	"strings"

	"hafvf/internal/inputfile"
	"hafvf/internal/message"
)

// A Secret is where a secret stands: in an environment variable or in a file,
// exactly one of them. The line ends that end a file are no part of it. A file may be a pipe, which
// is read once.
type Secret struct{ Env, File string }

// MaxBytes is the size in bytes of the longest secret.
const MaxBytes = 64 << 10

// Value reads the secret of a key of the config. Errors name the key and never what is
// in the place, nor the place where it holds none: that may be the secret itself,
// written where its place is due.
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
	return "", fmt.Errorf("%s: a secret has no place: name an environment variable (env) or a file (file)", key)
}

// A Text is a text, or where a secret text stands.
type Text struct {
	Text string
	Secret
}

// Read returns the text; key names it in an error.
func (t Text) Read(key string) (string, error) {
	if t.Secret == (Secret{}) {
		return t.Text, nil
	}
	return t.Secret.Value(key)
}

// Where names the place of the secret.
func (s Secret) Where() string {
	if s.Env != "" {
		return "the environment variable " + s.Env
	}
	return "the file " + s.File
}

// Path is the path of the secret's place in a config, below that of its key.
func (s Secret) Path(key string) string {
	switch {
	case s.Env != "":
		return key + ".env"
	case s.File != "":
		return key + ".file"
	}
	return key
}
