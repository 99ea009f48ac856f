// Package badserver has a server of HTTP that no client should go along with.
package badserver

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Start starts one. What is asked for below /redirect it redirects to another server, at a path
// with the word token; a request there fails the test. What is below /refuses it answers with 418,
// and all else with 200, both without an end.
func Start(t *testing.T) (url, other string) {
	t.Helper()
	to := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request is redirected") }))
	t.Cleanup(to.Close)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/redirect"):
			http.Redirect(w, r, to.URL+"/token-1234", http.StatusTemporaryRedirect)
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
	return s.URL, to.URL
}
