import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from conftest import ROOT

import hafvf

NAB = ROOT / "testdata" / "nab"


def series(n=200, keys=("a", "b"), seed=1, jump=None):
    rng = np.random.default_rng(seed)
    frames = []
    for key in keys:
        x = rng.normal(20, 1, n)
        if jump is not None:
            x[jump] += 30
        frames.append(pd.DataFrame({"key": key, "time": pd.date_range("2026-01-01", periods=n, freq="1min"), "x": x}))
    return pd.concat(frames, ignore_index=True)


def flat(record, name):
    value = record
    for part in name:
        value = None if value is None else value.get(part)
    return np.nan if value is None else value


def compare(estimates, records, fields):
    """Checks that columns equal the records of the program to the last bit."""
    assert len(estimates) == len(records)
    for column, path in fields.items():
        want = [flat(r, path) for r in records]
        got = [np.nan if pd.isna(v) else v for v in estimates[column].tolist()]
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert g == w or (g != g and w != w), (column, g, w)


BRIEF = {
    "n": ["n"],
    "x": ["x"],
    "predicted_mean": ["predicted", "mean"],
    "predicted_sd": ["predicted", "sd"],
    "estimate_mean": ["estimate", "mean"],
    "estimate_sd": ["estimate", "sd"],
    "log_predictive": ["log_predictive"],
    "weight": ["weight"],
    "memory": ["memory"],
}
DETECT = {
    "detect_kind": ["detect", "kind"],
    "detect_p_outlier": ["detect", "p_outlier"],
    "detect_p_change": ["detect", "p_change"],
    "detect_usual_mean": ["detect", "usual", "mean"],
    "detect_usual_sd": ["detect", "usual", "sd"],
    "detect_score": ["detect", "score"],
    "detect_alarm": ["detect", "alarm"],
    "detect_episode_state": ["detect", "episode", "state"],
}


def test_bundled_series_are_those_of_the_program(run_program):
    estimates, alerts, _ = run_program(
        f"model: {{family: normal, prior: auto}}\ndetect: true\nsource: {{csv: {{path: {NAB}/cloud.csv}}}}"
    )
    df = pd.read_csv(NAB / "cloud.csv")
    df["id"] = [f"cloud.csv:{i + 2}" for i in range(len(df))]
    got = hafvf.run(df, id="id", detect=True)
    by_id = {r["id"]: r for r in estimates}
    compare(got.estimates, [by_id[i] for i in df["id"]], BRIEF | DETECT)
    assert [t.isoformat() for t in got.estimates["time"]] == [by_id[i]["time"].replace("Z", "+00:00") for i in df["id"]]
    assert sorted(got.alerts["id"]) == sorted(a["id"] for a in alerts)
    assert sorted(got.alerts["message"]) == sorted(a["message"] for a in alerts)


def test_counts_are_those_of_the_program(run_program):
    model = "{family: poisson, prior: {shape: 1, rate: 0.02}}"
    estimates, _, _ = run_program(f"model: {model}\nsource: {{csv: {{path: {NAB}/tweets.csv}}}}")
    df = pd.read_csv(NAB / "tweets.csv")
    got = hafvf.filter(df, family="poisson", prior={"shape": 1, "rate": 0.02})
    at = {(r["key"], r["time"]): r for r in estimates}
    compare(got, [at[k, t] for k, t in zip(df["key"], df["time"], strict=True)], BRIEF)


def test_rows_stay_where_they_are():
    df = series()
    whole = hafvf.filter(df, detect=True)
    mixed = df.sample(frac=1, random_state=3)
    assert whole.equals(hafvf.filter(mixed, detect=True).loc[df.index])
    twice = df.set_index(pd.Index(["same"] * len(df)))
    got = hafvf.filter(twice, detect=True)
    assert list(got.index) == ["same"] * len(df)
    assert got.reset_index(drop=True).equals(whole)
    several = df.set_index(pd.MultiIndex.from_product([[1, 2], range(200)]))
    assert hafvf.filter(several, detect=True).index.equals(several.index)


def test_one_bad_row_costs_no_other():
    df = series(60).astype({"x": object, "time": object})
    df.loc[5, "x"] = "broken"
    df.loc[7, "time"] = "yesterday"
    df.loc[9, "x"] = float("inf")
    df.loc[11, "key"] = None
    df.loc[13, "x"] = None
    df.loc[15, "x"] = pd.NA
    df.loc[17, "time"] = pd.NaT
    with pytest.warns(UserWarning, match="5 rows were rejected, the first is row 5"):
        got = hafvf.run(df)
    assert got.rejected["row"].tolist() == [5, 7, 9, 11, 17]
    assert got.rejected["reason"][0] == 'the text "broken" where a number is due'
    assert "yesterday" in got.rejected["reason"][1]
    assert got.estimates["n"].isna().to_numpy().nonzero()[0].tolist() == [5, 7, 9, 11, 17]
    assert got.estimates["predicted_mean"].notna()[[13, 15]].all()  # missing observations are predicted
    good = df.drop([5, 7, 9, 11, 17])
    assert hafvf.filter(good)["estimate_mean"].tolist() == got.estimates["estimate_mean"].drop([5, 7, 9, 11, 17]).tolist()


def test_states_go_on():
    df = series(300, jump=250)
    first, second = df[df["time"] < "2026-01-01 02:30"], df[df["time"] >= "2026-01-01 02:30"]
    whole = hafvf.run(df, detect={"settling": "0s"})
    a = hafvf.run(first, detect={"settling": "0s"})
    b = hafvf.run(second, detect={"settling": "0s"}, states=pickle.loads(pickle.dumps(a.states)))
    assert pd.concat([a.estimates, b.estimates]).loc[df.index].equals(whole.estimates)
    assert b.states == whole.states
    assert b.alerts["message"].tolist() == whole.alerts["message"].tolist() != []
    with pytest.raises(hafvf.HafvfError) as e:
        hafvf.run(second, detect={"settling": "0s"}, states={"a": a.states["a"][:-1] + b"\x00\x01"})
    assert e.value.code == "state" and "key 'a'" in str(e.value)
    with pytest.raises(hafvf.HafvfError) as e:
        hafvf.run(second, family="poisson", states=a.states)
    assert e.value.code == "other_config"


def test_keys():
    df = series(50)
    plain = hafvf.run(df).estimates
    assert hafvf.run(df.astype({"key": "category"})).estimates.astype({"key": plain["key"].dtype}).equals(plain)
    numbers = df.assign(key=df["key"].map({"a": 1, "b": 2}))
    assert sorted(hafvf.run(numbers).states) == ["1", "2"]
    both = df.assign(key=df["key"].map({"a": 1, "b": "1"}).astype(object))
    with pytest.raises(ValueError, match="two keys of the frame have the text '1'"):
        hafvf.run(both)
    with pytest.raises(KeyError, match="no column 'sensor'"):
        hafvf.run(df, key="sensor")
    named = df.rename(columns={"x": "value"})
    assert hafvf.run(named).states == hafvf.run(df).states  # the only other column
    with pytest.raises(KeyError, match="no column x"):
        hafvf.run(named.assign(more=1))


def test_events_levels_of_the_index_and_empty_keys():
    df = series(60)
    counts = hafvf.filter(df[["key", "time"]], aggregate={"every": "10m", "value": "count"}, family="poisson")
    assert counts["x"].tolist() == [10.0] * 12 and counts["events"].tolist() == [10] * 12
    assert hafvf.filter(df.set_index(["key", "time"])).reset_index().equals(hafvf.filter(df))
    with pytest.warns(UserWarning, match="2 rows were rejected, the first is row 0: empty key"):
        assert list(hafvf.run(df.assign(key=["", ""] + ["a"] * 118), order="arrival").states) == ["a"]
    with pytest.raises(TypeError, match="data is a list"):
        hafvf.filter([1, 2])


def test_series_and_index_of_times():
    df = series(100, keys=("a",))
    plain = hafvf.filter(df)
    s = df.set_index("time")["x"]
    assert hafvf.filter(s)["estimate_mean"].tolist() == plain["estimate_mean"].tolist()
    assert hafvf.filter(df.set_index("time"), values="x", key="key").index.equals(s.index)
    no_times = hafvf.filter(df[["x"]], order="arrival")
    assert no_times["n"].tolist() == list(range(1, 101)) and no_times["time"].isna().all()
    with pytest.raises(KeyError, match="order='arrival'"):
        hafvf.filter(df[["x"]])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_have_units_and_zones(unit):
    df = series(30, keys=("a",))
    df["time"] = df["time"].astype(f"datetime64[{unit}]")
    want = hafvf.filter(df)["time"]
    assert want.equals(df["time"])
    for times in (
        df["time"].dt.tz_localize("UTC"),
        df["time"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
        df["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        df["time"].astype("int64") // df["time"].astype("int64")[0].__class__(1) if unit == "ns" else df["time"].astype(object),
        (df["time"] - pd.Timestamp(0)) // pd.Timedelta(1, unit),
    ):
        got = hafvf.filter(df.assign(time=times))["time"]
        assert got.tolist() == want.dt.tz_localize("UTC").tolist()
        assert got.dtype == (times.dtype if isinstance(times.dtype, pd.DatetimeTZDtype) else "datetime64[ns, UTC]")


def test_clock_of_a_zone(run_program, tmp_path):
    texts = [f"2026-03-29 {h:02}:{m:02}" for h in (0, 1, 2, 3, 4) for m in (0, 20, 40)]
    texts += [f"2026-10-25 {h:02}:{m:02}" for h in (0, 1, 2, 3, 4) for m in (0, 20, 40)]
    df = pd.DataFrame({"time": pd.to_datetime(texts), "x": 1.0})
    (tmp_path / "in.csv").write_text("time,x\n" + "".join(f"{t},1\n" for t in texts))
    estimates, _, _ = run_program(
        "model: {family: normal, prior: auto}\norder: arrival\nsource: {csv: {path: in.csv, key: none, zone: Europe/Berlin}}"
    )
    want = [r["time"].replace("Z", "+00:00") for r in estimates]
    for times in (df["time"], pd.Series(texts)):
        got = hafvf.filter(df.assign(time=times), zone="Europe/Berlin", order="arrival")
        if times.dtype.kind != "M":
            assert [t.isoformat() for t in got["time"]] == want
        else:  # the hour that the clock skips is the next one
            assert [str(t) for t in got["time"]] == [t.replace("-29 02", "-29 03") + ":00" for t in texts]


def test_far_times_are_rejected():
    df = series(3, keys=("a",))
    df["time"] = np.array(["2026-01-01", "3026-01-01", "2026-01-02"], "datetime64[s]")
    with pytest.warns(UserWarning, match="outside of the years 1678 to 2261"):
        got = hafvf.run(df)
    assert got.rejected["row"].tolist() == [1]


def test_vectors_and_intervals(run_program, tmp_path):
    rng = np.random.default_rng(2)
    df = series(80, keys=("a",)).assign(y=rng.normal(5, 2, 80))
    prior = {"mu": [20, 5], "kappa": 1, "nu": 4, "scale": [[1, 0], [0, 4]]}
    got = hafvf.filter(df, values=["x", "y"], family="mvnormal", prior=prior, interval=0.9)
    assert {"x_0", "x_1", "predicted_mean_0", "lower_1", "upper_1"} <= set(got.columns)
    df.to_csv(tmp_path / "in.csv", index=False)
    model = json.dumps({"family": "mvnormal", "prior": prior})
    estimates, _, _ = run_program(f"model: {model}\ninterval: 0.9\nsource: {{csv: {{path: in.csv, values: [x, y]}}}}")
    assert got["upper_1"].tolist() == [r["upper"][1] for r in estimates]
    assert got["x_0"].tolist() == [r["x"][0] for r in estimates]


def test_aggregates(run_program, tmp_path):
    df = series(200)
    df.to_csv(tmp_path / "in.csv", index=False)
    estimates, _, _ = run_program(
        "model: {family: normal, prior: auto}\naggregate: {every: 15m, value: mean}\nsource: {csv: {path: in.csv}}"
    )
    got = hafvf.run(df, aggregate={"every": pd.Timedelta("15min"), "value": "mean"})
    assert len(got.estimates) == len(estimates) < len(df)
    by = {(r["key"], r["time"]): r for r in estimates}
    order = [by[k, t.isoformat() + "Z"] for k, t in zip(got.estimates["key"], got.estimates["time"], strict=True)]
    compare(got.estimates, order, BRIEF)


def test_lateness_waits_and_answers_every_row():
    df = series(120).sample(frac=1, random_state=4)
    got = hafvf.run(df, lateness=pd.Timedelta("1h"))
    assert got.rejected.empty and got.estimates["n"].notna().all()


def test_what_waited_before_has_no_row():
    df = series(60, keys=("a",))
    s = hafvf.Stream(lateness="30m", expire="never")
    for time, x in zip(df["time"][:20], df["x"][:20], strict=True):
        s.update("a", time, x)
    got = hafvf.run(df[20:], lateness="30m", states=s.states)
    whole = hafvf.run(df, lateness="30m")
    assert got.estimates.equals(whole.estimates[20:]) and got.states == whole.states


def test_keys_that_are_silent_since_an_earlier_frame():
    df = series(60)
    first = hafvf.run(df, silence={"after": "15m"})
    later = df[df["key"] == "a"].assign(time=df["time"] + pd.Timedelta("1h"))
    got = hafvf.run(later, silence={"after": "15m"}, states=first.states)
    assert got.alerts[["key", "kind"]].to_numpy().tolist() == [["b", "silent"]]
    assert hafvf.run(later, silence={"after": "15m"}, states=got.states | {"a": first.states["a"]}).alerts.empty


def test_long_keys_go_in_several_calls(monkeypatch):
    df = series(500)
    whole = hafvf.run(df, detect=True, lateness="5m")
    monkeypatch.setattr("hafvf._client.MOST_ROWS", 70)
    parts = hafvf.run(df, detect=True, lateness="5m")
    assert parts.estimates.equals(whole.estimates)
    assert parts.states == whole.states


def test_full_records(run_program, tmp_path):
    df = series(90)
    df.to_csv(tmp_path / "in.csv", index=False)
    estimates, _, _ = run_program(
        "model: {family: normal, prior: auto}\ndetect: true\nrecords: full\nsource: {csv: {path: in.csv}}"
    )
    got = hafvf.filter(df, detect=True, records="full")
    more = {
        "posterior_mu": ["posterior", "mu"],
        "elbo": ["elbo"],
        "detect_age": ["detect", "age"],
        "detect_p_stay": ["detect", "p_stay"],
    }
    estimates.sort(key=lambda r: (r["key"], r["time"]))
    compare(got, estimates, BRIEF | DETECT | more)
    assert got["levels"].tolist() == [r["levels"] for r in estimates]
    assert set(hafvf.filter(df, detect=True).columns) < set(got.columns)


def test_episodes():
    df = series(300)
    df.loc[(df["key"] == "a") & (df["time"] >= "2026-01-01 04:00"), "x"] += 40
    got = hafvf.run(df, detect={"settling": "0s"}, records="full")
    rows, alarms = got.estimates, got.alerts[got.alerts["episode_id"].notna()]
    assert not alarms.empty and set(alarms["episode_state"]) <= {"open", "worse"}
    assert alarms["episode_since"].dtype == df["time"].dtype and alarms["worst_size"].abs().max() > 3
    inside = rows[rows["detect_episode_state"].notna()]
    assert set(alarms["episode_id"]) == set(inside["detect_episode_id"])
    assert inside["detect_worst_size"].notna().all() and inside["detect_usual_before_mean"].notna().all()
    assert rows["detect_episode_id"].notna().sum() == len(inside) < len(rows)
    brief = hafvf.filter(df, detect={"settling": "0s"})
    assert brief["detect_episode_state"].astype(object).equals(rows["detect_episode_state"].astype(object))
    silent = hafvf.run(series(2)).alerts
    assert silent.empty and list(silent.columns) == hafvf._frame.ALERT_COLUMNS


def test_nothing_is_a_frame_of_nothing():
    got = hafvf.run(series(2).iloc[:0], detect=True)
    assert got.estimates.empty and got.alerts.empty and got.rejected.empty and got.states == {}
    assert list(got.alerts.columns)[:3] == ["key", "time", "kind"]


def test_no_warning_if_all_is_well():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hafvf.alerts(series(100, jump=90))


def test_the_guide_finds_the_alarm(capsys):
    text = (ROOT / "GUIDE.md").read_text()
    block = text.split("## How do I use it from Python?")[1].split("```python\n")[1].split("```")[0]
    exec(block, {})
    assert capsys.readouterr().out.startswith("pump-1 is 29 % above usual at 2026-01-07 18:40: 26, usual at this hour 20.2")


def test_the_readme_runs(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    block = (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
    exec(block, {})
    assert "usual at this hour" in capsys.readouterr().out
    first, *others = [
        part.split("```")[0] for part in (ROOT / "connectors/python/README.md").read_text().split("```python\n")[1:]
    ]
    names = {}
    exec(first, names)
    assert "usual at this hour" in capsys.readouterr().out
    exec(next(block for block in others if "joined(df)" in block), names)
    df, alarms = names["df"], names["result"].alerts["row"].count()
    assert len(names["table"]) == len(names["messages"]) == len(df) and len(names["alarms"]) == alarms > 20
    assert names["messages"]["message"].count() == alarms


def test_shares_are_those_of_the_program(run_program, tmp_path):
    rng = np.random.default_rng(1)
    time = pd.date_range("2026-01-01", periods=2000, freq="37s", tz="UTC")
    df = pd.DataFrame({"key": rng.choice(["a", "b"], 2000), "time": time, "errors": rng.poisson(2, 2000)})
    df["requests"] = df["errors"] + rng.poisson(20, 2000)
    df.to_csv(tmp_path / "in.csv", index=False)
    about = "model: {family: binomial}\naggregate: {every: 5m, value: share, of: errors, to: requests}\n"
    want, _, _ = run_program(about + f"source: {{csv: {{path: {tmp_path}/in.csv}}}}")
    (tmp_path / "settings.yaml").write_text(about)
    got = hafvf.filter(df, settings=tmp_path / "settings.yaml").sort_values(["time", "key"])
    want = sorted(want, key=lambda r: (r["time"], r["key"]))
    assert got["x_0"].fillna(-1).tolist() == [-1 if r["x"][0] is None else r["x"][0] for r in want] != []
    assert got["estimate_mean"].tolist() == [r["estimate"]["mean"] for r in want]


@pytest.mark.parametrize("kind", ["int32", "category", "object", "Int64"])
def test_results_join(kind):
    df = series(300, keys=(7, 8)).astype({"key": kind}).sample(frac=1, random_state=2)
    df["time"] = df["time"].dt.as_unit("s").dt.tz_localize("Europe/Berlin")
    df.iloc[3, 2] = np.inf
    df.loc[df["time"].isin(df["time"].nlargest(40)), "x"] += 40
    about = {"detect": {"settling": "0s"}, "silence": {"after": "1h"}}
    with pytest.warns(UserWarning, match="1 row was rejected"):
        got = hafvf.run(df, states=hafvf.run(df.sort_values("time").head(60).assign(key="new"), **about).states, **about)
    assert "new" in got.alerts["key"].tolist() and got.alerts["row"].isna().any()
    assert got.estimates.dtypes["key"] == got.rejected.dtypes["key"] == df.dtypes["key"]
    assert got.estimates["key"].equals(df["key"])
    for frame in (got.estimates, got.alerts):
        assert frame.dtypes["time"] == df.dtypes["time"]
    alarms = got.alerts[got.alerts["row"].notna()]
    assert len(alarms) >= 2 and df.iloc[alarms["row"]]["x"].tolist() == alarms["x"].tolist()
    assert df.loc[alarms["index"].tolist(), "time"].tolist() == alarms["time"].tolist()
    joined = got.joined(df)
    assert joined.columns[:3].tolist() == ["key", "time", "x"] and joined["detect_alarm"].notna().sum() == len(alarms)
    assert joined["n"].equals(got.estimates["n"]) and "n_hafvf" in got.joined(df.assign(n=1))
    assert len(df.merge(got.alerts, on=["key", "time"])) == len(alarms)
    with pytest.raises(ValueError, match="another index"):
        got.joined(df.head(3))


def test_frames_with_to_pandas_are_taken():
    class Other:
        def to_pandas(self):
            return series(30)

    assert hafvf.filter(Other()).equals(hafvf.filter(series(30)))
    assert hafvf.run(series(30)).joined(Other()).shape == (60, 12)


def test_wide_rows(monkeypatch):
    df = pd.DataFrame({"time": pd.date_range("2026-01-01", periods=30, freq="h"), "x": np.arange(30) % 3})
    want = hafvf.filter(df, family="categorical", dim=200)
    monkeypatch.setattr("hafvf._client._MOST_NUMBERS", 5000)
    assert hafvf.filter(df, family="categorical", dim=200).equals(want)
