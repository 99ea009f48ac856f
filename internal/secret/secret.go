// Package secret reads secrets from where they stand: never from a config.
package secret

import (
	"fmt"
	"hafvf/internal/message"
	"os"
	"strings"
)

// A Secret is where a secret stands: in an environment variable or in a file,
// exactly one of them. The line end that ends a file is no part of it.
type Secret struct{ Env, File string }

// Value reads the secret of a key of the config. Errors name the key and never what is
// in the place, nor the place where it holds none: that may be the secret itself,
// written where its place is due.
func (s Secret) Value(key string) (string, error) {
	switch {
	case s.Env != "" && s.File != "":
		return "", fmt.Errorf("%s: give one of env and file", key)
	case s.Env != "":
		v, ok := os.LookupEnv(s.Env)
		if !ok {
			return "", fmt.Errorf("%s.env: the environment variable that it names is not set", key)
		}
		if v == "" {
			return "", fmt.Errorf("%s.env: the environment variable %s is empty", key, s.Env)
		}
		return v, nil
	case s.File != "":
		b, err := os.ReadFile(s.File)
		if err != nil {
			return "", fmt.Errorf("%s.file: the file that it names cannot be read: %w", key, message.Cause(err))
		}
		v := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
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
