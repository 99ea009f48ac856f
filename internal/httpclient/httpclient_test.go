package httpclient

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"hafvf/internal/secret"
	"hafvf/internal/testing/expect"
	"hafvf/internal/tlsfiles"
)

// serve starts a server and returns its URL.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func client(t *testing.T, s Server, b Bounds) *Client {
	t.Helper()
	c := expect.Get(New("sink", s, b, nil))(t)
	return c
}

func plain(url string) Server { return Server{URL: secret.Text{Text: url}, Timeout: time.Minute} }

// get requests the server's URL with suffix appended.
func get(t *testing.T, c *Client, suffix string) (answer *http.Response, body string, err error) {
	t.Helper()
	answer, err = c.HTTP().Get(c.Base().String() + suffix)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	return answer, string(b), err
}

// No client follows a redirect. The response names its target without secrets.
func TestRedirect(t *testing.T) {
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request is redirected") })
	for _, code := range []int{301, 302, 303, 307, 308} {
		for location, want := range map[string]string{
			strings.Replace(other, "http://", "http://user:token-1@", 1) + "/token-2?t=token-3": "redirect to " + other + " was not followed",
			"/token-4": "redirect to http://127.0.0.1:",
		} {
			c := client(t, plain(serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", location)
				w.WriteHeader(code)
				io.WriteString(w, "token-5")
			})), Bounds{})
			for _, httpClient := range []*http.Client{c.HTTP(), {Transport: c}} {
				answer, err := httpClient.Post(c.Base().String(), "text/plain", strings.NewReader("secret"))
				expect.OK(t, err)
				text, err := io.ReadAll(answer.Body)
				if answer.Body.Close(); err != nil || answer.StatusCode != code || !strings.HasPrefix(string(text), want) || strings.Contains(string(text), "token") || answer.ContentLength != int64(len(text)) {
					t.Errorf("%d to %s: %d %q, %v", code, location, answer.StatusCode, text, err)
				}
			}
		}
	}
}

// A response is read up to its bound, whatever length the server announces.
func TestBound(t *testing.T) {
	const bound = 100 << 10
	for _, c := range []struct {
		code, length int // length of the body; -1 means endless
		want         string
	}{
		{200, bound - 1, ""}, {200, bound, ""}, {200, bound + 1, "the answer is longer than 102400 bytes"}, {200, -1, "the answer is longer than 102400 bytes"},
		{500, bound + 1, ""}, {500, -1, ""},
	} {
		finished := make(chan struct{})
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(c.code)
			piece := strings.Repeat("a", 1<<10)
			for n := c.length; n != 0; {
				if c.length > 0 {
					piece = piece[:min(n, len(piece))]
					n -= len(piece)
				}
				if _, err := io.WriteString(w, piece); err != nil {
					break
				}
			}
			close(finished)
		})
		_, body, err := get(t, client(t, plain(url), Bounds{Answer: bound}), "")
		if (err == nil) != (c.want == "") || err != nil && (err.Error() != c.want || !errors.As(err, new(TooLong))) {
			t.Errorf("%+v: %v", c, err)
		}
		if want := map[int]int{200: min(c.length, bound), 500: c.length}[c.code]; err == nil && c.length > 0 && len(body) != want ||
			len(body) > 1<<20 {
			t.Errorf("%+v: %d bytes", c, len(body))
		}
		<-finished
	}
	expect.Same(t, "the answer is longer than 8 MB", TooLong(defaultAnswer).Error())
}

// A Retry-After is at most its bound, also for callers that read the header.
func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "30": 30 * time.Second, "86400": 30 * time.Second, "-5": 0, "1e3": 0, "soon": 0,
		"9999999999": 30 * time.Second, "99999999999999999999999": 30 * time.Second,
		"Sun, 06 Nov 1994 08:49:37 GMT": 0, "Sun, 06 Nov 2194 08:49:37 GMT": 30 * time.Second,
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", text)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		for _, maxPause := range []time.Duration{30 * time.Second, 0} {
			answer, _, err := get(t, client(t, plain(url), Bounds{Pause: maxPause}), "")
			expect.OK(t, err)
			expect.Same(t, min(want, maxPause), parseRetryAfter(answer.Header.Get("Retry-After")), text, " of at most ", maxPause)
		}
	}
}

// After 401 and 403 the secrets are read again; if they have changed, the request is repeated with its body.
func TestSecretsAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) secret.Secret { return secret.Secret{File: filepath.Join(dir, name)} }
	write := func(name, text string) {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600))
	}
	valid, refusal, requests := "", 0, 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests++
		user, password, _ := r.BasicAuth()
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != "body" || r.URL.RawQuery != "q=1" || user != "user" {
			t.Errorf("%s: %q, %v", r.URL, body, err)
		}
		if got := r.Header.Get("X-Token") + " " + password + " " + r.URL.Path; got != valid {
			w.WriteHeader(refusal)
		}
	})
	write("url", url+"/p1")
	write("password", "w1")
	write("token", "t1")
	c := client(t, Server{URL: secret.Text{Secret: file("url")}, Username: "user", Password: file("password"), Headers: map[string]secret.Text{"x-token": {Secret: file("token")}}}, Bounds{})
	post := func() (int, error) {
		requests = 0
		answer, err := c.HTTP().Post(c.Base().String()+"/below?q=1", "text/plain", strings.NewReader("body"))
		if err != nil {
			return 0, Bare(err)
		}
		answer.Body.Close()
		return answer.StatusCode, nil
	}
	for _, test := range []struct {
		file, text, valid    string
		refusal, want, tries int
	}{
		{"token", "t1", "t1 w1 /p1/below", 401, 200, 1},
		{"token", "t2", "t2 w1 /p1/below", 401, 200, 2},
		{"token", "t2", "t2 w1 /p1/below", 401, 200, 1},
		{"password", "w2", "t2 w2 /p1/below", 403, 200, 2},
		{"url", url + "/p2", "t2 w2 /p2/below", 403, 200, 2},
		{"token", "t3", "t2 w2 /p2/below", 401, 200, 1}, // the previous token is valid
		{"token", "t4", "t5 w2 /p2/below", 401, 401, 2},
		{"token", "t4", "t5 w2 /p2/below", 401, 401, 1},
		{"token", "t5", "t6 w2 /p2/below", 404, 404, 1},
	} {
		write(test.file, test.text)
		valid, refusal = test.valid, test.refusal
		if code, err := post(); code != test.want || requests != test.tries || err != nil {
			t.Errorf("%+v: %d after %d requests, %v", test, code, requests, err)
		}
	}
	refusal = 401
	expect.OK(t, os.Remove(filepath.Join(dir, "token")))
	if _, err := post(); !errors.As(err, new(*SecretError)) || !strings.Contains(err.Error(), "answers 401 Unauthorized, and the login cannot be read again: sink.headers.x-token.file") || strings.Contains(err.Error(), "/p2") {
		t.Error(err)
	}
}

// A header that cannot be sent is refused, by name and by text, and the error does not show the text. If the header
// was read again, the log names the key, and the previous header stays in use.
func TestHeaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) { expect.OK(t, os.WriteFile(file, []byte(text), 0o600)) }
	header := func(name string) map[string]secret.Text {
		return map[string]secret.Text{name: {Secret: secret.Secret{File: file}}}
	}
	url, got := "", []string(nil)
	url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("X-Token"))
		w.WriteHeader(http.StatusUnauthorized)
	})
	for _, c := range []struct{ name, text, want string }{
		{"X-Token", "secret\nsecret", "sink.headers.X-Token.file: the text cannot be sent as a header: character 7"},
		{"X-Token", "\x00secret", "character 1 "},
		{"X-Token ", "secret", `sink.headers.X-Token .file: "X-Token " is not a valid header name`},
		{"X\r\nA: b", "secret", "is not a valid header name"},
		{"", "secret", "is not a valid header name"},
	} {
		write(c.text)
		if _, err := New("sink", Server{URL: secret.Text{Text: url}, Headers: header(c.name)}, Bounds{}, nil); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	write("first\r\n\n\n") // line ends at the end are removed
	var log strings.Builder
	c := expect.Get(New("sink", Server{URL: secret.Text{Text: url}, Headers: header("X-Token")}, Bounds{}, slog.New(slog.NewTextHandler(&log, nil))))(t)
	write("secret\nsecret")
	if answer, _, err := get(t, c, ""); err != nil || answer.StatusCode != http.StatusUnauthorized {
		t.Error(answer, err)
	}
	write("second\n\n")
	if answer, _, err := get(t, c, ""); err != nil || answer.StatusCode != http.StatusUnauthorized {
		t.Error(answer, err)
	}
	expect.Same(t, []string{"first", "first", "second"}, got)
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "sink.headers.X-Token.file") || strings.Contains(text, "secret secret") {
		t.Error(text)
	}
}

// A refusal that repeats parts of the request shows no secret.
func TestSecretsAreHidden(t *testing.T) {
	dir := t.TempDir()
	secretFile := func(name, text string) secret.Secret {
		expect.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		return secret.Secret{File: filepath.Join(dir, name)}
	}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "seen: "+r.RequestURI)
		for name, text := range r.Header {
			io.WriteString(w, "|"+name+": "+text[0])
			if _, credentials, ok := strings.Cut(text[0], " "); ok {
				io.WriteString(w, "|"+credentials)
			}
		}
	})
	secrets := []string{"longsecret1", "longsecret2", "longsecret3", "/hook/longsecret4", "abc", "longsecret5", "long%2Fsecret6"}
	for _, s := range []Server{
		{URL: secret.Text{Text: url}, Headers: map[string]secret.Text{"Authorization": {Secret: secretFile("a", "Bearer longsecret1")}, "X-Token": {Secret: secretFile("x", "longsecret2")}, "X-Tenant": {Text: "open-tenant"}}},
		{URL: secret.Text{Text: url}, Username: "user", Password: secretFile("p", "longsecret3")},
		{URL: secret.Text{Secret: secretFile("u", url+"/hook/longsecret4")}},
		{URL: secret.Text{Text: url}, Headers: map[string]secret.Text{"Authorization": {Text: "abc"}}},
		{URL: secret.Text{Text: url + "/hook?token=longsecret5&of=long%2Fsecret6&n=1"}},
	} {
		_, text, err := get(t, client(t, s, Bounds{}), "")
		secrets := append(secrets, base64.StdEncoding.EncodeToString([]byte("user:longsecret3")))
		if err != nil || slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(text, s) }) || !strings.Contains(text, "[hidden]") {
			t.Errorf("%v: %s", err, text)
		}
		if s.Headers["X-Tenant"].Text != "" && !strings.Contains(text, "open-tenant") {
			t.Errorf("an open text is hidden: %s", text)
		}
	}
}

// The errors of New name the key, and show no secret.
// If a secret contains another one, it is hidden as a whole.
func TestLongestSecretIsHidden(t *testing.T) {
	expect.Same(t, "[hidden], [hidden]", hide([]string{"secret-1", "secret-1-and-more"}, "").Replace("secret-1-and-more, secret-1"))
}

// Post accepts every 2xx code, and no other one.
func TestPostCodes(t *testing.T) {
	for code, accepted := range map[int]bool{200: true, 204: true, 299: true, 300: false, 404: false} {
		c := client(t, plain(serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })), Bounds{})
		if err := c.Post(t.Context(), c.Base().String(), http.Header{}, nil); (err == nil) != accepted {
			t.Errorf("%d: %v", code, err)
		}
	}
}

func TestNew(t *testing.T) {
	missing := secret.Secret{File: filepath.Join(t.TempDir(), "none")}
	for want, s := range map[string]Server{
		"sink.url: must be":            plain("ftp://token"),
		"sink.url.env":                 {URL: secret.Text{Secret: secret.Secret{Env: "NOT_SET_"}}},
		"sink.headers.A.file":          {URL: secret.Text{Text: "http://a/token"}, Headers: map[string]secret.Text{"A": {Secret: missing}}},
		"sink.password.file":           {URL: secret.Text{Text: "http://a/token"}, Username: "u", Password: missing},
		"sink.tls.ca: " + missing.File: {URL: secret.Text{Text: "https://a/token"}, TLS: &tlsfiles.TLS{CA: missing.File}},
		"sink.tls.cert and tls.key ":   {URL: secret.Text{Text: "https://a/token"}, TLS: &tlsfiles.TLS{Cert: missing.File}},
	} {
		if _, err := New("sink", s, Bounds{}, nil); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "token") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A login in the URL is sent, and no message shows it.
func TestLoginInURL(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "u" || password != "token" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	c := client(t, plain(strings.Replace(url, "http://", "http://u:token@", 1)), Bounds{})
	if answer, _, err := get(t, c, "/x"); err != nil || answer.StatusCode != 200 || c.Place() != url {
		t.Errorf("%v %v, at %s", answer, err, c.Place())
	}
	unreachable := client(t, plain("http://u:token@127.0.0.1:1/token"), Bounds{})
	if _, _, err := get(t, unreachable, "/token"); err == nil || strings.Contains(Bare(err).Error(), "token") {
		t.Error(Bare(err))
	}
}

// The client trusts the authority that TLS names, and shows its certificate to the server.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		name = filepath.Join(dir, name)
		expect.OK(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return name
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		expect.Same(t, 1, len(r.TLS.PeerCertificates), "certificates of the client")
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	certificate := s.TLS.Certificates[0]
	key := expect.Get(x509.MarshalPKCS8PrivateKey(certificate.PrivateKey))(t)
	cert := file("cert.pem", "CERTIFICATE", certificate.Certificate[0])
	server := plain(s.URL)
	server.TLS = &tlsfiles.TLS{CA: cert, Cert: cert, Key: file("key.pem", "PRIVATE KEY", key)}
	if _, _, err := get(t, client(t, server, Bounds{}), ""); err != nil {
		t.Error(err)
	}
}

// Requests use the proxy of the environment.
func TestProxy(t *testing.T) {
	got := client(t, plain("http://a"), Bounds{}).transport.Proxy
	want := reflect.ValueOf(http.ProxyFromEnvironment).Pointer()
	expect.Same(t, want, reflect.ValueOf(got).Pointer(), "the proxy of the environment")
}

// Only these codes are temporary. A code that is wrongly final loses an alert.
func TestTemporary(t *testing.T) {
	var got []int
	for code := range 600 {
		if Temporary(code) {
			got = append(got, code)
		}
	}
	want := []int{408, 425, 429}
	for code := 500; code < 600; code++ {
		want = append(want, code)
	}
	expect.Same(t, want, got)
}
