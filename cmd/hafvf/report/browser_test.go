package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"hafvf/hafvf/incidents"
	"hafvf/internal/testing/expect"
)

// browse opens a page in Chromium, and returns a function that runs actions on it. It skips the test without
// Chromium, and fails it in CI.
func browse(t *testing.T, url string) (do func(...chromedp.Action[chromedp.Void])) {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	switch {
	case path != "":
	case os.Getenv("CI") != "":
		t.Fatal("there is no Chromium: apt-get install chromium")
	default:
		t.Skip("THE LIVE PAGE IS NOT TESTED IN A BROWSER: there is no Chromium; apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(time.Minute))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	do = func(actions ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		expect.OK(t, chromedp.Do(limited, actions...))
	}
	// The first action needs the context of the browser.
	expect.OK(t, chromedp.Do(ctx, chromedp.Navigate(url)))
	return do
}

// until waits for a condition of the page. The page's policy forbids the scripts of chromedp.Poll.
func until(condition string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			ok, err := chromedp.Evaluate[bool]("!!("+condition+")")(ctx, t)
			if err != nil || ok {
				return err
			}
			if time.Now().After(deadline) {
				return errors.New("timed out waiting for: " + condition)
			}
		}
	})
}

// holds fails unless the condition is true.
func holds(condition string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		ok, err := chromedp.Evaluate[bool]("!!("+condition+")")(ctx, t)
		if err == nil && !ok {
			err = errors.New("is false: " + condition)
		}
		return err
	})
}

// A page in a browser follows the run. Changes that a person made to the page remain.
func TestLiveInABrowser(t *testing.T) {
	expect.Long(t, "a browser")
	l, s := serveLive(t)
	do := browse(t, s.URL)
	const rows = `document.querySelectorAll("#table tbody tr").length`
	do(until(`document.getElementById("live").textContent === "live"`), holds(`document.body.textContent.includes("Nothing has been raised yet")`))

	slowest := time.Duration(0)
	appears := func(report func(), condition string) {
		t.Helper()
		start := time.Now()
		report()
		do(until(condition))
		slowest = max(slowest, time.Since(start))
	}
	appears(func() { l.raise("rack/<b>1</b>", 1) }, rows+" === 1")
	do(holds(`document.querySelector("#table td a.key").textContent === "rack/<b>1</b>"`), holds(`!document.querySelector("#table b")`))
	event := &incidents.Event{ID: "rack@1", State: incidents.Opened, Page: true, Group: "rack", Keys: 40, NumMembers: 2, Time: liveStart, Start: liveStart, Message: "2 keys of rack have alarmed.",
		Members: []incidents.Member{{Key: "rack/<b>1</b>", Time: liveStart.Add(time.Second), Score: 7}}}
	appears(func() { l.Observer().Incident(event) }, `document.querySelector("#incidents li.page .says")?.textContent === "2 keys of rack have alarmed."`)
	appears(func() {
		for i := range 60 {
			l.raise(fmt.Sprintf("rack/%d", 10+i), 60+i)
			l.raise("shelf/1", 200+i)
		}
	}, rows+" === 121")

	// Order, filter, focus, folds, an open key and the scroll position.
	do(chromedp.Click(chromedp.CSS("#table th:nth-child(2) button")), chromedp.SendKeys(chromedp.CSS("#filter"), "rack/1"), chromedp.Click(chromedp.CSS("#incidents summary")),
		chromedp.Click(chromedp.CSS(`[data-d="shelf"] > summary`)), chromedp.Click(chromedp.CSS(`button.name[data-k="0"]`)), until(`document.querySelector(".panel .u-over")`),
		chromedp.Focus(chromedp.CSS("#filter")), holds(`document.getElementById("filter").setSelectionRange(2, 4), document.querySelector("#alarms").scrollIntoView(), window.top0 = document.querySelector("#alarms").getBoundingClientRect().top, true`),
		holds(`document.querySelector(".panel h3").textContent === "shelf/1"`))
	const shown = `[...document.querySelectorAll("#table tbody tr:not([hidden])")].map((r) => r.cells[1].textContent)`
	appears(func() {
		l.raise("rack/1", 500)
		l.raise("rack/09", 501)
		event.Message, event.State = "41 keys of rack have alarmed.", incidents.Update
		event.Keys = 41
		l.Observer().Incident(event)
	}, rows+` === 123 && document.querySelector("#incidents .says").textContent.startsWith("41")`)
	do(holds(shown+`.join() === `+shown+`.sort().join() && `+shown+`.length === 11`), // rack/1 and rack/10 … rack/19
		holds(`document.getElementById("filter").value === "rack/1"`),
		holds(`document.activeElement.id === "filter" && document.activeElement.selectionStart === 2`),
		holds(`document.querySelector("#incidents details").open`),
		holds(`document.querySelector(".panel h3").textContent === "shelf/1" && document.querySelector("button.name[aria-expanded=true]").parentElement.nextElementSibling.className === "panel"`),
		holds(`Math.abs(document.querySelector("#alarms").getBoundingClientRect().top - window.top0) < 2`),
		holds(`document.querySelector('#table th[aria-sort="ascending"]').textContent === "Key"`))
	t.Logf("delay from the run to the browser: at most %v", slowest)

	// A reload without scripts shows the same.
	_, html := get(t, s.URL)
	for _, text := range []string{"41 keys of rack have alarmed.", "rack/&lt;b&gt;1&lt;/b&gt;", "Live since"} {
		if !strings.Contains(html, text) {
			t.Errorf("the page lacks %s", text)
		}
	}
	l.Close()
	do(until(`/the run ended at 20.*Z/.test(document.getElementById("live").textContent)`))
}

// The script of a page uses the zone of the page, here during a repeated hour.
func TestPageInAZoneInABrowser(t *testing.T) {
	expect.Long(t, "a browser")
	clockChange := time.Date(2025, 10, 26, 1, 0, 0, 0, time.UTC)
	alerts, estimates := []string{}, []string{}
	for _, minute := range []time.Duration{10, -10, 180} {
		alerts = append(alerts, noveltyAt("a", clockChange.Add(minute*time.Minute)))
	}
	for i := range 60 {
		estimates = append(estimates, fmt.Sprintf(`{"key":"a","time":%q,"id":"%d","n":%[2]d,"x":%d,"predicted":{"mean":1,"sd":1},"detect":{"alarm":null}}`, clockChange.Add(time.Duration(i-30)*10*time.Minute).Format(time.RFC3339), i+1, i%5))
	}
	c := expect.Get(Files(t.Context(), []string{file(t, alerts...), file(t, estimates...)}, Since{}, berlin(t)))(t)
	path := filepath.Join(t.TempDir(), "page.html")
	expect.Get(c.Page().WriteFile(path))(t)
	do := browse(t, "file://"+path)
	const column = `[...document.querySelectorAll("#table tbody tr")].map((r) => r.cells[0].textContent).join()`
	do(chromedp.Click(chromedp.CSS("#table th:nth-child(1) button")),
		holds(column+` === "2025-10-26T02:50:00+02:00,2025-10-26T02:10:00+01:00,2025-10-26T05:00:00+01:00"`),
		chromedp.Click(chromedp.CSS(`button.name[data-k="0"]`)), until(`document.querySelector(".panel .u-over")`),
		holds(`[...document.querySelectorAll(".panel li")].map((e) => e.textContent).join() === "2025-10-26T05:00:00+01:00 at 2025-10-26T04:00:00Z,2025-10-26T02:10:00+01:00 at 2025-10-26T01:10:00Z,2025-10-26T02:50:00+02:00 at 2025-10-26T00:50:00Z"`),
		holds(`document.querySelector(".panel .u-legend th").textContent === "Europe/Berlin"`))
	// The cell of 02:10.
	do(holds(`(() => {
		const strip = document.querySelector(".heat .only .strip"), box = strip.getBoundingClientRect(), data = JSON.parse(document.getElementById("data").textContent);
		const at = (Date.UTC(2025, 9, 26, 2, 12) / 1000 - data.first) / data.step / data.columns;
		strip.dispatchEvent(new MouseEvent("mousemove", { bubbles: true, clientX: box.left + at * box.width, clientY: box.top + 1 }));
		return document.querySelector(".tip").textContent === "2025-10-26T02:10:00 Europe/Berlin: novelty, score 9";
	})()`))
	// A click on a key of smoothed sessions shows both sessions, with segments and changes.
	c = expect.Get(Files(t.Context(), []string{file(t, sessionLines()...)}, Since{}, time.UTC))(t)
	expect.Get(c.Page().WriteFile(path))(t)
	do(chromedp.Navigate("file://"+path), chromedp.Click(chromedp.CSS(`button.name[data-k="0"]`)), until(`document.querySelectorAll(".panel .u-over").length === 4`),
		holds(`[...document.querySelectorAll(".panel .u-legend th")].some((e) => e.textContent === "level of the segment")`),
		holds(`document.querySelector(".panel li").textContent.includes("5.0 → 8.0 for 2 observations")`))
}
