// The page is complete without this script. It adds charts on click, hints on cells, and sorting and
// filtering of the table. Text from records is inserted as text, never as markup.
(function () {
  "use strict";
  let data = JSON.parse(document.getElementById("data").textContent);
  // The parts of the page before the script changes them.
  const parts = (page) => [page.querySelector("header"), ...page.querySelectorAll("section")];
  const came = new Map(parts(document).map((part) => [part.id, part.innerHTML]));
  const grouped = (n) => n.toLocaleString("en");
  document.documentElement.classList.add("scripted");

  function make(tag, attributes, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) e.setAttribute(name, value);
    e.append(...children);
    return e;
  }
  const iso = (seconds) => new Date(seconds * 1000).toISOString().replace(/\.000Z$/, "Z");
  const at = (seconds) => ({ datetime: iso(seconds), title: iso(seconds) });
  // The page's offset from UTC, and the local time as if it were UTC, in seconds.
  const ahead = (seconds) => {
    const all = data.offsets || [[0, 0]];
    return (all.findLast(([from]) => from <= seconds) || all[0])[1];
  };
  const wall = (seconds) => seconds + ahead(seconds);
  const stamp = (seconds) => {
    const by = ahead(seconds), minutes = Math.floor(Math.abs(by) / 60), two = (n) => String(Math.floor(n)).padStart(2, "0");
    return by ? iso(wall(seconds)).replace("Z", (by < 0 ? "-" : "+") + two(minutes / 60) + ":" + two(minutes % 60)) : iso(seconds);
  };
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const text = (v) => (v == null ? "–" : Number(v.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 }));

  // ---- the panel of a key

  let open = null; // {button, panel, plots, redraws, key}

  function close(refocus) {
    if (!open) return;
    open.plots.forEach((p) => p.destroy());
    open.panel.remove();
    open.button.setAttribute("aria-expanded", "false");
    if (refocus) open.button.focus();
    open = null;
  }

  // Messages of the alarms in the table, by key and time.
  let messages = null;
  function messageOf(id, at) {
    if (!messages) {
      messages = new Map();
      document.querySelectorAll("#table tbody tr").forEach((row) => {
        const link = row.querySelector("a.key");
        if (link) messages.set(link.hash.slice(2) + " " + row.cells[0].firstChild.dateTime + " " + row.cells[2].textContent, (row.cells[5].firstChild || row.cells[5]).textContent.trim());
      });
    }
    return messages.get(id + " " + iso(at[0]) + " " + data.kinds[at[1]]);
  }

  function show(button, anew) {
    const again = open && open.button === button;
    close(false);
    if (again && !anew) return;
    const id = button.dataset.k, key = data.keys[id];
    const panel = make("div", { class: "panel", role: "region", "aria-label": key.key });
    const shut = make("button", { type: "button", class: "plain" }, "Close");
    shut.addEventListener("click", () => close(true));
    const bar = make("div", { class: "bar" }, make("h3", { class: "key" }, key.key), shut);
    panel.append(bar);
    button.setAttribute("aria-expanded", "true");
    button.parentElement.after(panel);
    open = { button, panel, plots: [], redraws: [], key };
    if (key.series) for (const part of sessionsOf(key)) draw(part, panel, bar);
    else panel.append(make("p", { class: "about" }, "No series of this key is on the page. Its alarms:"));
    const list = make("ul", { "aria-label": key.changes ? "changes" : "alarms" });
    for (const m of key.moving || []) list.append(make("li", {}, make("time", at(m[0]), stamp(m[0])), " ", m[1]));
    for (const c of key.changes || []) list.append(make("li", {}, make("time", at(c[0]), stamp(c[0])), " ", c[3]));
    for (const a of key.alarms.slice().reverse()) {
      const words = messageOf(id, a) || data.kinds[a[1]] + (a[3] == null ? "" : ", " + text(a[3]) + " sd") + (a[2] == null ? "" : ", score " + text(a[2]));
      list.append(make("li", {}, make("time", at(a[0]), stamp(a[0])), " ", words));
    }
    if (key.left) list.append(make("li", {}, grouped(key.left) + " earlier alarms are not listed."));
    panel.append(list);
    if (!anew) panel.scrollIntoView({ block: "nearest" });
  }

  // A key of smoothed sessions has a chart for each session, if there are not too many; other keys have one.
  function sessionsOf(key) {
    const s = key.series, ends = [...(s.gaps || []), s.t.length];
    if (!key.changes || ends.length < 2 || ends.length > 50) return [key];
    let at = 0;
    const times = s.t.map((t) => (at += t));
    return ends.map((end, i) => {
      const from = i ? ends[i - 1] : 0, part = { ...s, gaps: [], seen: 0, t: s.t.slice(from, end) };
      part.t[0] = times[from];
      for (const c of ["x", "um", "us", "pm", "ps", "score", "from"]) if (s[c]) part[c] = s[c].slice(from, end);
      return { ...key, series: part, session: "session from " + stamp(times[from]) + " to " + stamp(times[end - 1]) };
    });
  }

  function draw(key, panel, bar) {
    const s = key.series, n = s.t.length;
    const times = [];
    for (let i = 0, at = 0; i < n; i++) times.push((at += s.t[i]));
    const none = () => new Array(n).fill(null);
    const smoothed = key.changes, wide = smoothed ? 1.96 : 2;
    const columns = { x: s.x || none(), score: s.score || none(), from: s.from || null };
    for (const b of ["u", "p"]) {
      const mean = s[b + "m"], sd = s[b + "s"];
      if (!mean || !sd) continue;
      if (b === "u" && smoothed) continue; // the level of the segment, drawn in addition to the estimate
      columns[b] = [mean, mean.map((m, i) => (m == null || sd[i] == null ? null : m + wide * sd[i])), mean.map((m, i) => (m == null || sd[i] == null ? null : m - wide * sd[i]))];
    }
    // A gap without observations breaks the lines.
    const gaps = new Set(s.gaps);
    const broken = (list) => {
      const out = [];
      list.forEach((v, i) => {
        if (gaps.has(i)) out.push(null);
        out.push(v);
      });
      return out;
    };
    const at = [];
    times.forEach((t, i) => {
      if (gaps.has(i)) at.push((t + times[i - 1]) / 2);
      at.push(t);
    });
    let band = columns.u ? "u" : columns.p ? "p" : "";
    if (key.session) panel.append(make("h4", {}, key.session));
    const box = make("div", {});
    let plots = [];
    panel.append(box);
    if (columns.u && columns.p) {
      const select = make("select", { "aria-label": "band" }, make("option", { value: "u" }, "the usual value"), make("option", { value: "p" }, "the prediction"));
      select.addEventListener("change", () => {
        band = select.value;
        plot();
      });
      bar.lastChild.before(make("label", {}, "band of ", select, " ± 2 sd"));
    }
    if (key.plan) panel.append(make("p", { class: "about" }, "plan: " + key.plan));
    if (s.seen > n) panel.append(make("p", { class: "about" }, grouped(n) + " of " + grouped(s.seen) + " observations: extremes and " + (smoothed ? "changes" : "alarms") + " are kept."));

    const alarms = key.alarms.filter((a) => a[0] >= times[0] && a[0] <= times[n - 1]);
    // The changes of sessions, with their intervals.
    const places = (u) => {
      const c = u.ctx, { left, top, width, height } = u.bbox, clamp = (t) => Math.max(left, Math.min(left + width, u.valToPos(t, "x", true)));
      c.save();
      for (const [t, from, to] of smoothed) {
        c.fillStyle = color("--place");
        c.fillRect(clamp(from), top, clamp(to) - clamp(from), height);
        c.fillStyle = color("--strong");
        if (clamp(t) > left && clamp(t) < left + width) c.fillRect(clamp(t), top, devicePixelRatio, height);
      }
      c.restore();
    };
    const rings = (u) => {
      const c = u.ctx, r = devicePixelRatio, { left, top, width, height } = u.bbox;
      c.save();
      c.strokeStyle = color("--h2");
      c.lineWidth = 1.5 * r;
      for (const [t, v] of key.outliers) {
        const x = u.valToPos(t, "x", true), y = u.valToPos(v, "y", true);
        if (x < left || x > left + width || y < top || y > top + height) continue;
        c.beginPath();
        c.arc(x, y, 4 * r, 0, 2 * Math.PI);
        c.stroke();
      }
      c.restore();
    };
    const marks = (u) => {
      const c = u.ctx, bottom = u.bbox.top + u.bbox.height, r = devicePixelRatio;
      c.save();
      c.fillStyle = color("--strong");
      for (const a of alarms) {
        const x = u.valToPos(a[0], "x", true);
        if (x < u.bbox.left - 1 || x > u.bbox.left + u.bbox.width + 1) continue;
        c.beginPath();
        c.moveTo(x, bottom - 9 * r);
        c.lineTo(x - 4.5 * r, bottom);
        c.lineTo(x + 4.5 * r, bottom);
        c.fill();
      }
      c.restore();
    };
    function range(u, low, high) {
      // The band may be far wider than the values, as in the first observations of a key.
      const x = columns.x.filter((v) => v != null);
      if (!x.length) return [low ?? 0, high ?? 1];
      let a = Infinity, b = -Infinity;
      for (const v of x) (a = Math.min(a, v)), (b = Math.max(b, v));
      const spread = b - a || Math.abs(a) || 1;
      a = Math.max(low ?? a, a - 0.6 * spread);
      b = Math.min(high ?? b, b + 0.6 * spread);
      const edge = 0.06 * (b - a || 1);
      return [a - edge, b + edge];
    }
    function plot() {
      plots.forEach((p) => p.destroy());
      open.plots = open.plots.filter((p) => !plots.includes(p));
      box.replaceChildren();
      const width = box.clientWidth, ink = color("--faint"), grid = { stroke: color("--line"), width: 1 };
      const axes = [
        { stroke: ink, grid, ticks: grid, space: 90, size: 32, values: (u, all, axis, space, step) => all.map(wall).map((t) => (step >= 86400 ? iso(t).slice(0, 10) : t % 86400 ? iso(t).slice(11, step < 60 ? 19 : 16) : iso(t).slice(5, 10))) },
        { stroke: ink, grid, ticks: grid, size: 58, values: (u, all) => all.map((v) => (Math.abs(v) >= 1e6 || (v && Math.abs(v) < 1e-3) ? v.toExponential(1) : v.toLocaleString("en", { maximumSignificantDigits: 6 }))) },
      ];
      const shared = { width, tzDate: (t) => uPlot.tzDate(new Date(wall(t) * 1000), "Etc/UTC"), cursor: { sync: { key: key.session || "key" }, drag: { x: true, y: false } } };
      const when = { label: data.zone || "UTC", value: (u, t) => (t == null ? "–" : stamp(Math.round(t))) };
      const value = (u, v) => text(v);
      const fill = band ? columns[band] : [none(), none(), none()];
      const name = smoothed ? "estimate" : band === "p" ? "predicted" : "usual";
      const level = smoothed && s.um ? [{ label: "level of the segment", stroke: color("--h2"), width: 2, value, points: { show: false } },
        ...["+1", "−1"].map((of) => ({ label: of + " sd of the level", stroke: "transparent", value, points: { show: false } }))] : [];
      const ofLevel = (sds) => broken(s.um.map((m, i) => (m == null || !s.us || s.us[i] == null ? null : m + sds * s.us[i])));
      const rows = broken(columns.x);
      plots = [
        new uPlot(
          {
            ...shared, height: Math.min(260, 140 + width / 6), axes: [axes[0], { ...axes[1], label: data.value || "x", labelSize: 18, labelGap: 0 }],
            series: [when, smoothed ? { label: "value", stroke: "transparent", value, points: { show: true, size: 3, width: 0, fill: color("--value"), filter: null } } : { label: "value", stroke: color("--value"), width: 1.2, value, points: { show: n < 120 } }, { label: name, stroke: color("--accent"), width: 1, value, points: { show: false } },
              { label: "+" + wide + " sd", stroke: "transparent", value, points: { show: false } }, { label: "−" + wide + " sd", stroke: "transparent", value, points: { show: false } }, ...level],
            bands: [{ series: [3, 4], fill: color("--band") }, ...(level.length ? [{ series: [6, 7], fill: color("--place") }] : [])],
            scales: { y: { range } },
            hooks: smoothed ? { drawAxes: [places], draw: [rings] } : { draw: [marks] },
          },
          [at, rows, broken(fill[0]), broken(fill[1]), broken(fill[2]), ...(level.length ? [broken(s.um), ofLevel(1), ofLevel(-1)] : [])], box),
        new uPlot(
          {
            ...shared, height: 130, axes: [axes[0], { ...axes[1], label: smoothed ? "nats" : "score", labelSize: 18, labelGap: 0 }],
            series: [when, { label: smoothed ? "evidence of a change (nats)" : "score", stroke: color("--h3"), width: 1.2, value, points: { show: false } }, ...(columns.from ? [{ label: smoothed ? "a change takes, at odds of 10" : "alarm from", stroke: color("--strong"), dash: [4, 4], width: 1, value, points: { show: false } }] : [])],
            hooks: smoothed ? { drawAxes: [places] } : { draw: [marks] },
          },
          [at, broken(columns.score), ...(columns.from ? [broken(columns.from)] : [])], box),
      ];
      open.plots.push(...plots);
      plots.forEach((p) => p.root.setAttribute("role", "img"));
      plots[0].root.setAttribute("aria-label", "value of " + key.key + " with the band, over time");
      plots[1].root.setAttribute("aria-label", (smoothed ? "evidence of changes of " : "score of ") + key.key + " over time");
    }
    plot();
    open.redraws.push(plot);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.name");
    if (button) return show(button);
    const strip = event.target.closest(".strip");
    const row = strip && strip.parentElement.querySelector("button.name");
    if (row) show(row);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close(true);
  });

  // A link to a key opens its group and scrolls to the key.
  function follow() {
    const row = /^#k\d+$/.test(location.hash) && document.getElementById(location.hash.slice(1));
    if (!row) return;
    const group = row.closest("details");
    if (group) group.open = true;
    const button = row.querySelector("button.name");
    if (!open || open.button !== button) show(button);
    button.focus({ preventScroll: true });
    row.scrollIntoView({ block: "start" });
  }
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.key");
    if (link && link.hash === location.hash) follow(); // the hash does not change
  });
  follow();

  let resizing = 0, width = innerWidth;
  addEventListener("resize", () => {
    if (width === innerWidth) return;
    width = innerWidth;
    clearTimeout(resizing);
    resizing = setTimeout(() => open && open.redraws.forEach((plot) => plot()), 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => open && open.redraws.forEach((plot) => plot()));

  // ---- hints on cells

  const tip = make("div", { class: "tip", hidden: "" });
  document.body.append(tip);
  document.addEventListener("mousemove", (event) => {
    const strip = event.target.closest && event.target.closest(".strip");
    tip.hidden = !strip;
    if (!strip) return;
    const box = strip.getBoundingClientRect();
    const column = Math.min(data.columns - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * data.columns)));
    const from = data.first + column * data.step;
    let words = data.zone ? iso(from).slice(0, -1) + " " + data.zone : iso(from) + " UTC"; // cells are local times
    const button = strip.parentElement.querySelector("button.name");
    if (button) {
      const key = data.keys[button.dataset.k], here = (key.changes || key.alarms).filter((a) => wall(a[0]) >= from && wall(a[0]) < from + data.step);
      words += here.length ? ": " + here.map((a) => (key.changes ? a[3] : data.kinds[a[1]] + (a[2] == null ? "" : ", score " + text(a[2])))).slice(0, 4).join("; ") : "";
    }
    tip.textContent = words;
    tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = event.clientY + 16 + "px";
  });

  // ---- the table

  let arrange = () => {}; // sorts and filters the rows again
  function prepare() {
    const table = document.getElementById("table");
    if (!table) return;
    const heads = [...table.tHead.rows[0].cells];
    const read = (cell, kind) => {
      const s = cell.firstElementChild?.dateTime || cell.textContent;
      if (kind === "text") return s;
      const v = parseFloat(s.replace(/,/g, "").replace("−", "-"));
      return kind === "size" ? Math.abs(v) : v;
    };
    const sort = () => {
      const column = heads.findIndex((h) => h.hasAttribute("aria-sort")), kind = heads[column].dataset.sort, down = heads[column].getAttribute("aria-sort") === "descending";
      const keyed = [...table.tBodies[0].rows].map((row) => [read(row.cells[column], kind), row]);
      keyed.sort(([a], [b]) => {
        if (a === b) return 0;
        if (a !== a) return b !== b ? 0 : 1; // rows without a number come last
        if (b !== b) return -1;
        return (a < b ? -1 : 1) * (down ? -1 : 1);
      });
      table.tBodies[0].append(...keyed.map(([, row]) => row));
    };
    heads.forEach((head) => {
      const kind = head.dataset.sort;
      if (!kind) return;
      const button = make("button", { type: "button" }, head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "ascending" : kind !== "text";
        heads.forEach((h) => h.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort();
      });
    });
    heads[4].setAttribute("aria-sort", "descending"); // the order of the page
    const filter = document.getElementById("filter"), kind = document.getElementById("kind"), where = document.getElementById("where"), count = document.getElementById("count");
    const choose = () => {
      const word = filter.value.trim().toLowerCase(), rows = [...table.tBodies[0].rows];
      let shown = 0;
      for (const row of rows) {
        const fits = (!kind.value || row.cells[2].textContent === kind.value) && (!where.value || (where.value === "i") === row.classList.contains("in")) &&
          (!word || (row.cells[1].textContent + " " + row.cells[5].textContent).toLowerCase().includes(word));
        row.hidden = !fits;
        shown += fits;
      }
      count.textContent = grouped(shown) + " of " + grouped(rows.length) + " rows";
    };
    const offer = () => {
      const there = new Set([...kind.options].map((o) => o.value));
      [...new Set([...table.tBodies[0].rows].map((row) => row.cells[2].textContent))].sort().forEach((k) => there.has(k) || kind.append(make("option", { value: k }, k)));
    };
    [filter, kind, where].forEach((e) => e.addEventListener("input", choose));
    filter.form.addEventListener("submit", (event) => event.preventDefault());
    arrange = () => (offer(), sort(), choose());
    offer();
    choose();
  }
  prepare();

  // ---- the live page of a run

  const root = document.documentElement;
  if (!root.dataset.live) return;
  root.style.overflowAnchor = "none"; // see replace

  // The name identifies an element before and after a replacement.
  function nameOf(e) {
    const part = e.closest("header, section"), d = e.closest("summary") && e.closest("[data-d]");
    if (!part || e === part) return part && (() => document.getElementById(part.id) || document.querySelector("header"));
    if (d) return () => [...document.querySelectorAll("[data-d]")].filter((x) => x.dataset.d === d.dataset.d && x.closest("section").id === part.id).map((x) => x.firstElementChild)[0];
    if (e.dataset.k) {
      const key = data.keys[e.dataset.k].key;
      return () => document.querySelector('button.name[data-k="' + data.keys.findIndex((k) => k.key === key) + '"]');
    }
    const alike = (within) => [...within.querySelectorAll(e.tagName)].filter((x) => x.textContent === e.textContent);
    const nth = alike(part).indexOf(e);
    return () => alike(document.getElementById(part.id) || document.querySelector("header"))[nth];
  }

  // replace updates the parts of the page that changed. Scroll position, focus, open folds, and the
  // sorting and filter of the table stay.
  function replace(next) {
    const focused = document.activeElement, focus = focused !== document.body && nameOf(focused);
    const off = (e) => Math.abs(e.getBoundingClientRect().top);
    const spot = [...document.querySelectorAll("header, section, button.name")].filter((e) => e.getClientRects().length).reduce((a, b) => (off(b) < off(a) ? b : a));
    const top = spot.getBoundingClientRect().top, again = nameOf(spot);
    const folds = new Map([...document.querySelectorAll("details[data-d]")].map((d) => [d.closest("section").id + d.dataset.d, d.open]));
    data = JSON.parse(next.getElementById("data").textContent);
    messages = null;
    document.title = next.title;
    let before = null;
    for (const part of parts(next)) {
      const old = part.id ? document.getElementById(part.id) : document.querySelector("header"), html = part.innerHTML;
      if (!old) before.after(part);
      else if (came.get(part.id) !== html) {
        const rows = old.querySelector("#table tbody"), fresh = part.querySelector("#table tbody");
        if (!old.id) part.querySelector("#live").replaceWith(says);
        if (rows && fresh) {
          rows.replaceWith(fresh);
          old.querySelector(".about").replaceWith(part.querySelector(".about"));
        } else old.replaceWith(part);
      }
      if (part.querySelector("#table")) prepare();
      came.set(part.id, html);
      before = part.isConnected && part.ownerDocument === document ? part : old;
    }
    arrange();
    for (const d of document.querySelectorAll("details[data-d]")) d.open = folds.get(d.closest("section").id + d.dataset.d) ?? d.open;
    if (open) {
      const id = data.keys.findIndex((k) => k.key === open.key.key), button = document.querySelector('button.name[data-k="' + id + '"]');
      const x = open.plots[0] && open.plots[0].scales.x, t = open.plots[0] && open.plots[0].data[0];
      const zoomed = x && (x.min > t[0] || x.max < t[t.length - 1]);
      if (!button) close(false);
      else if (!zoomed && JSON.stringify(data.keys[id]) !== JSON.stringify(open.key)) show(button, true);
      else {
        open.button = button;
        button.setAttribute("aria-expanded", "true");
        button.parentElement.after(open.panel);
      }
    }
    const now = again && again();
    if (now) scrollBy(0, now.getBoundingClientRect().top - top);
    const to = focused.isConnected ? focused : focus && focus();
    if (to && to !== document.activeElement) to.focus({ preventScroll: true });
    root.dataset.live = next.documentElement.dataset.live;
  }

  const says = document.getElementById("live");
  const say = (words) => says.textContent === words || (says.textContent = words);
  let asking = false, more = false, pressed = false;
  for (const [name, down] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]]) addEventListener(name, () => (pressed = down), true);
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  // refresh requests the page, at most once a second.
  async function refresh() {
    more = true;
    if (asking) return;
    asking = true;
    while (more) {
      more = false;
      try {
        const answer = await fetch(location.pathname, { headers: { Accept: "text/html" } });
        const next = answer.ok && new DOMParser().parseFromString(await answer.text(), "text/html");
        for (let i = 0; pressed && i < 50; i++) await pause(20); // during a click or a selection
        if (next) replace(next);
      } catch {} // the events resume when the run is back
      await pause(1000);
    }
    asking = false;
  }

  (function follow() {
    const events = new EventSource("events");
    let since = "";
    const lost = (words) => {
      since ||= stamp(Math.floor(Date.now() / 1000));
      say(words + " at " + since + ": the page is no longer updated");
    };
    events.addEventListener("open", () => {
      since = "";
      say("live");
    });
    events.addEventListener("end", () => lost("the run ended"));
    events.addEventListener("error", () => {
      if (!says.textContent.startsWith("the run ended")) lost("the connection broke");
      if (events.readyState === EventSource.CLOSED) setTimeout(follow, 10000);
    });
    events.addEventListener("alarm", refresh);
    events.addEventListener("incident", refresh);
    events.addEventListener("state", (event) => {
      const state = JSON.parse(event.data);
      document.getElementById("facts").replaceChildren(...state.facts.map((f) => make("div", {}, make("dt", {}, f.name), make("dd", {}, f.value))));
      if (state.version !== root.dataset.live || open) refresh();
    });
  })();
})();
