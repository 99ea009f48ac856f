import inspect
import json
import os
import re
import signal
import subprocess
import sys
import threading
import types
import warnings

import numpy as np
import pandas as pd
import pytest

import hafvf
from hafvf import _client

NORMAL = {"family": "normal", "prior": {"mu": 0, "kappa": 0.1, "alpha": 2, "beta": 2}}
BERNOULLI = {"family": "bernoulli", "prior": {"alpha": 0.5, "beta": 0.5}}


def levels(keys=3, n=90, seed=3):
    """Keys with a change of level, some missing values and an outlier."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 1, (keys, n)) + np.where(np.arange(n) < n // 2, 0, 6) * np.arange(keys)[:, None]
    x[:, 7], x[1, 20] = np.nan, 40
    times = pd.date_range("2026-03-28 20:15", periods=n, freq="7min").tolist() * keys
    return pd.DataFrame({"sensor": np.repeat([f"s/{k}" for k in range(keys)], n), "when": times, "temp": x.ravel()})


def choices(people=3, n=80, seed=5):
    """Choices between two options with rewards, some of them missed."""
    rng = np.random.default_rng(seed)
    rows = []
    for person in range(people):
        v = np.full(2, 0.5)
        for t in range(n):
            k = int(rng.random() < 1 / (1 + np.exp(-4 * (v[1] - v[0]))))
            x = int(rng.random() < (0.8, 0.2)[k ^ (t > n // 2)])
            v[k] += 0.3 * (x - v[k])
            rows.append({"person": person, "block": t // 40, "option": "LR"[k], "x": x, "on": "L R"})
    frame = pd.DataFrame(rows)
    frame.loc[[5, 90], ["option", "on"]] = None
    return frame


@pytest.fixture
def command(program, tmp_path):
    """Writes a frame and a config, runs a command, and returns the table or the records that it writes."""

    def run(frame, config, name, *arguments):
        frame.to_csv(tmp_path / "in.csv", index=False)
        (tmp_path / "c.yaml").write_text(config.replace("FILE", str(tmp_path / "in.csv")))
        args = [str(a).replace("OUT", str(tmp_path / "out.csv")) for a in arguments]
        args = [str(tmp_path / a) if a in ("c.yaml", "smoothed.csv") else a for a in args]
        done = subprocess.run([str(program), name, *args], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return table(tmp_path / "out.csv") if "OUT" in arguments else done

    return run


def table(path):
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def same(want, got, renamed=True):
    """Checks that a frame has the program's table, to the last bit."""
    assert len(want) == len(got) > 0
    for name in want:
        mine = got[name.replace(".", "_") if renamed else name]
        if isinstance(mine.dtype, pd.DatetimeTZDtype):
            times = pd.to_datetime(want[name].replace("", None), utc=True, format="ISO8601")
            assert times.tolist() == mine.dt.tz_convert("UTC").tolist() or times.isna().all() and mine.isna().all(), name
        elif mine.dtype.kind in "if" and name != "key":
            a = np.array([float(v or "nan") for v in want[name]])
            b = mine.to_numpy(np.float64, na_value=np.nan)
            assert np.array_equal(np.isnan(a), np.isnan(b)), name
            assert np.array_equal(a[~np.isnan(a)].view(np.int64), b[~np.isnan(b)].view(np.int64)), name
        else:
            texts = ["" if v is None or v is pd.NA or v != v else str(v) for v in mine.tolist()]
            assert want[name].tolist() == [text.lower() if mine.dtype == "boolean" else text for text in texts], name


@pytest.mark.parametrize(
    ("config", "keywords"),
    [
        ("model: {family: normal, prior: auto}", {}),
        ("model: {family: normal, prior: auto}\nchange: {odds: 1}\nrecords: full", {"change": {"odds": 1}, "records": "full"}),
        ("model: {family: normal, prior: auto}\nsession: {gap: 30m}\nlevels: [{alpha: 9, beta: 1}]\ntop: 1",
         {"session": {"gap": "30m"}, "levels": [{"alpha": 9, "beta": 1}], "top": 1}),
    ],
)  # fmt: skip
def test_smooth_equals_program(command, tmp_path, config, keywords):
    frame = levels()
    frame.loc[frame.index[60:], "when"] += pd.Timedelta("1D")  # a gap in the first key
    source = f"source: {{csv: {{path: FILE, key: sensor, time: when, values: temp, zone: Europe/Berlin}}}}\n{config}\n"
    config = source + f"transform: smooth\nsink: {{csv: {{path: {tmp_path}/smoothed.csv}}}}\n"
    command(frame, config, "run", "c.yaml")
    want = command(frame, config, "sessions", "smoothed.csv", "-o", "OUT", "--interval", "0.8")
    found = hafvf.smooth(frame, key="sensor", time="when", values="temp", zone="Europe/Berlin", interval=0.8, **keywords)
    same(want, found.segments)
    records = table(tmp_path / "smoothed.csv").sort_values("id")
    same(records, found.estimates.sort_values("id"))
    assert np.array_equal(frame["temp"].reindex(found.estimates.index), found.estimates["x"], equal_nan=True)
    shuffled = frame.sample(frac=1, random_state=1)
    again = hafvf.sessions(shuffled, key="sensor", time="when", values="temp", zone="Europe/Berlin", interval=0.8, **keywords)
    pd.testing.assert_frame_equal(again, found.segments)


def test_sessions_without_times(command, tmp_path):
    frame = choices()
    frame["x"] += np.random.default_rng(2).normal(0, 1, len(frame)).round(3)
    config = f"""source: {{csv: {{path: FILE, key: person, time: ""}}}}
model: {{family: normal, prior: auto}}
transform: smooth
order: arrival
session: {{by: block}}
sink: {{csv: {{path: {tmp_path}/smoothed.csv}}}}
"""
    command(frame, config, "run", "c.yaml")
    want = command(frame, config, "sessions", "smoothed.csv", "-o", "OUT")
    found = hafvf.sessions(frame, key="person", session={"by": "block"}, order="arrival")
    same(want, found)
    assert found["key"].tolist() == [0, 0, 1, 1, 2, 2]  # keys have their type


@pytest.mark.parametrize("transform", ["filter", "smooth"])
def test_trials_equal_program(command, transform):
    config = f"transform: {transform}\n" + "source: {csv: {path: FILE, key: sensor, time: when, values: temp}}\n"
    frame = levels()
    want = command(frame, config + "model: {family: normal, prior: auto}\n", "trials", "c.yaml", "-o", "OUT")
    found = hafvf.trials(frame, key="sensor", time="when", values="temp", settings={"transform": transform})
    same(want, found)
    joined = frame.join(found[["surprise", "segment"]])
    assert joined["surprise"].notna().sum() == found["surprise"].notna().sum()


def test_trials_of_vectors(command):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.normal(0, 1, 70), "b": rng.normal(3, 1, 70)})
    config = 'source: {csv: {path: FILE, key: none, time: "", values: [a, b]}}\norder: arrival\n'
    config += "model: {family: mvnormal, prior: auto}\n"
    want = command(frame, config, "trials", "c.yaml", "-o", "OUT")
    same(want.drop(columns="key"), hafvf.trials(frame, values=["a", "b"], family="mvnormal", prior="auto"))


@pytest.mark.parametrize("pooled", [False, True])
def test_fit_equals_program(command, pooled):
    frame = levels()
    config = "source: {csv: {path: FILE, key: sensor, time: when, values: temp}}\nlevels: [{alpha: 9, beta: 1}]\ntop: .99\n"
    config += "model: {family: normal, prior: {mu: 0, kappa: 0.1, alpha: 2, beta: 2}}\n"
    more = ["--pooled"] if pooled else []
    want = command(frame, config, "fit", "c.yaml", "--over", "levels[0].alpha, top", "-o", "OUT", *more)
    model = {"levels": [{"alpha": 9, "beta": 1}], "top": 0.99, **NORMAL}
    over = ["levels[0].alpha", "top"]
    found = hafvf.fit(frame, over=over, pooled=pooled, key="sensor", time="when", values="temp", **model)
    same(want, found, renamed=False)


@pytest.mark.parametrize(
    ("key", "arguments", "flags"),
    [
        (["person", "option"], {}, []),
        (["person", "option"], {"offered": "on", "stay": True}, ["--offered", "on", "--stay"]),
        (["person", "block"], {"subject": "person"}, ["--subject", "person"]),
        (["person"], {"choice": "option=L"}, []),
    ],
)
def test_fit_of_choices_equals_program(command, key, arguments, flags):
    frame = choices()
    config = f'source: {{csv: {{path: FILE, key: [{", ".join(key)}], time: ""}}}}\norder: arrival\nlevels: []\n'
    config += "model: {family: bernoulli, prior: {alpha: .5, beta: .5}}\n"
    arguments = {"choice": "option", **arguments}
    flags = ["--over", "top", "--response", "choice", "--choice", arguments["choice"], *flags]
    want = command(frame, config, "fit", "c.yaml", *flags, "-o", "OUT")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = hafvf.fit(frame, over="top", response="choice", key=key, values="x", levels=[], **arguments, **BERNOULLI)
    same(want, found, renamed=False)
    assert any("beta depends on the prior" in str(w.message) for w in caught)
    assert found.attrs["notes"][-1].startswith("parameters of subjects, by their choices: 3 rows")


QUIET = {"match": "*", "from": "2026-03-30T02:00:00Z", "to": "2026-03-30T04:00:00Z"}


@pytest.mark.parametrize("more", ["", "silence: true\n", "model: {family: poisson}\n", f"quiet: {json.dumps([QUIET])}\n"])
def test_backtest_equals_program(command, tmp_path, more):
    frame = levels(n=900)
    frame["temp"] = frame["temp"].where(frame.index % 450 != 300, 25)  # planted incidents
    if "poisson" in more:
        frame["temp"] = frame["temp"].round().clip(lower=-1)  # -1 is outside of its domain
    frame = frame.drop(index=range(1000, 1200))
    labels = pd.DataFrame({"key": ["s/0", "s/0", "s/1", "no"], "start": ["2026-03-30 07:00", "2026-03-31 00:00"] * 2})
    labels["end"] = ["2026-03-30 08:00", "2026-03-31 05:00"] * 2
    labels.to_csv(tmp_path / "labels.csv", index=False)
    config = f"source: {{csv: {{path: FILE, key: sensor, time: when, values: temp}}}}\ndetect: {{budget: 24h}}\n{more}"
    if "family" not in more:
        config += "model: {family: normal, prior: auto}\n"
    want = json.loads(command(frame, config, "backtest", "c.yaml", "--labels", str(tmp_path / "labels.csv"), "--json").stdout)
    settings = {"detect": {"budget": "24h"}, **({"silence": True} if "silence" in more else {})}
    if "poisson" in more:
        settings["family"] = "poisson"
    if "quiet" in more:
        settings["quiet"] = [QUIET]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = hafvf.backtest(frame, labels=labels, key="sensor", time="when", values="temp", **settings)
    for report in (want, found.report):
        del report["config"], report["seconds"], report["records_per_second"]
        text = re.sub(r'"id": "(row |[^"]*in.csv:)[0-9]+"', '"id": ""', json.dumps(report, sort_keys=True))
        text = re.sub(r"\bin.csv:\d+|row \d+", "", text)
        report["text"] = text
    assert want["text"] == found.report["text"]
    assert len(found.alarms) == sum(want["told"].values()) > 0
    assert str(found).startswith("messages a week") and "windows hit" in str(found)


def test_plot_of_index_levels():
    """A plot finds the keys and times in the index."""
    pytest.importorskip("matplotlib").use("Agg")
    index = pd.MultiIndex.from_product(
        [["a", "b"], pd.date_range("2026-01-01", periods=80, freq="h", tz="UTC")], names=["key", "time"]
    )
    result = hafvf.run(pd.DataFrame({"x": np.arange(160) % 7 + 0.5}, index=index), detect=True)
    assert "key" not in result.estimates and len(result.plot("b").lines) >= 2


def test_signatures():
    """help() and Tab know each setting, with its sentence and default."""
    for function in (
        hafvf.run,
        hafvf.filter,
        hafvf.alerts,
        hafvf.smooth,
        hafvf.sessions,
        hafvf.trials,
        hafvf.fit,
        hafvf.backtest,
    ):
        parameters = inspect.signature(function).parameters
        assert {"data", "key", "values", "settings", "family", "lateness"} <= set(parameters), function
        assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        assert "lateness: How long a record waits" in function.__doc__ and "Default: 0s." in function.__doc__


def test_progress(monkeypatch):
    bars = []

    class Bar:
        def __init__(self, desc, total, delay):
            self.n, self.total, self.open = 0, total, True
            bars.append(self)

        def update(self, n):
            self.n += n

        def close(self):
            self.open = False

    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "tqdm.auto", types.SimpleNamespace(tqdm=Bar))
    frame = pd.DataFrame({"key": np.arange(8000) % 80, "x": np.random.default_rng(1).normal(0, 1, 8000)})
    hafvf.fit(frame, over="top", levels=[], top=0.9, **NORMAL)
    assert bars and bars[-1].total == 80 and 0 < bars[-1].n <= 80 and not any(bar.open for bar in bars)


def test_plot():
    pytest.importorskip("matplotlib").use("Agg")
    frame = levels(n=600)
    frame.loc[frame.index % 600 == 450, "temp"] += 20
    columns = {"key": "sensor", "time": "when", "values": "temp"}
    result = hafvf.run(frame.set_index(frame.index % 7), detect=True, **columns)
    assert labels_of(result.plot("s/1")) == {"expected (95 %)", "alarms", "values"}
    assert labels_of(hafvf.smooth(frame, **columns).plot("s/1")) == {"level (95 %)", "changes", "values"}
    one = frame[frame["sensor"] == "s/0"]
    assert len(hafvf.run(one, **columns).plot().lines[-1].get_xdata()) == 600
    with pytest.raises(ValueError, match="3 keys: give key=…, such as 's/0'"):
        result.plot()
    with pytest.raises(ValueError, match="no key 'pump'"):
        result.plot("pump")


def labels_of(ax):
    ax.figure.canvas.draw()
    return set(ax.get_legend_handles_labels()[1])


def test_misuse():
    frame = choices()
    for message, do in {
        r"^over: there is no levels": lambda: hafvf.fit(
            frame, over="levels[7].alpha", key="person", values="x", levels=[], **BERNOULLI
        ),
        "auto sets the prior": lambda: hafvf.fit(frame, over="top", key="person", values="x"),
        "interval=1": lambda: hafvf.smooth(frame, key="person", values="x", interval=1),
        "has no column 'who'": lambda: hafvf.trials(frame, key="who", values="x"),
        "only response is 'choice'": lambda: hafvf.fit(frame, over="top", response="reward"),
        "need response='choice'": lambda: hafvf.fit(frame, over="top", stay=True),
        "detect": lambda: hafvf.smooth(frame, key="person", values="x", detect=True),
    }.items():
        with pytest.raises((hafvf.HafvfError, KeyError, ValueError), match=message):
            do()
    with pytest.warns(UserWarning, match="1 row was rejected, the first is row 3: the row has no key"):
        frame = frame.astype({"person": "Int64"})
        frame.loc[3, "person"] = pd.NA
        assert len(hafvf.trials(frame, key="person", values="x", family="bernoulli")) == len(frame) - 1


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_interrupt(living, monkeypatch):
    """Ctrl-C ends a long fit and its child."""
    frame = pd.DataFrame({"x": np.random.default_rng(1).normal(0, 1, 300_000)})
    head_of = _client.head_of

    def sent(kind, payload):
        if kind == b"r":  # the request of the fit, which takes minutes
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        return head_of(kind, payload)

    monkeypatch.setattr(_client, "head_of", sent)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background processes ignore SIGINT
    try:
        with pytest.raises(KeyboardInterrupt):
            hafvf.fit(
                frame, over=["levels[0].alpha", "levels[0].beta", "top"], levels=[{"alpha": 9, "beta": 1}], top=0.9, **NORMAL
            )
    finally:
        signal.signal(signal.SIGINT, before)
    assert living[-1].process.poll() is not None
