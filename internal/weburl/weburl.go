// Package weburl parses the URLs of servers in a config.
package weburl

import (
	"errors"
	"net/url"
)

// Parse parses the URL of a server. The error does not repeat the URL, which may be secret.
func Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("must be http://… or https://… with a host")
	}
	return u, nil
}
