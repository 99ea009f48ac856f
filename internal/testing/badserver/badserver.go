// Package badserver has an HTTP server that misbehaves: it redirects to another host, and its responses never end.
package badserver

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Start starts the server and returns its URL and the URL of another server. It redirects requests below /redirect
// to the other server, at a path with the word token; a request there fails the test. It answers requests below
// /refuses with 418, all others with 200, and both bodies never end.
func Start(t *testing.T) (url, other string) {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request is redirected") }))
	t.Cleanup(target.Close)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/redirect"):
			http.Redirect(w, r, target.URL+"/token-1234", http.StatusTemporaryRedirect)
			return
		case strings.HasPrefix(r.URL.Path, "/refuses"):
			w.WriteHeader(http.StatusTeapot)
		}
		for piece := bytes.Repeat([]byte("a"), 1<<16); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, target.URL
}
