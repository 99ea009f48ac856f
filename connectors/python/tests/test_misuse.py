import pickle
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import hafvf

N = 120
rng = np.random.default_rng(5)
DF = pd.DataFrame({"key": "a", "time": pd.date_range("2026-01-01", periods=N, freq="5min"), "x": rng.normal(10, 1, N)})
TEXTS = DF.assign(time=DF["time"].dt.strftime("%d.%m.%Y %H:%M"))
STATES = hafvf.run(DF).states
TWO = pd.concat([DF.assign(key="a"), DF.assign(key="b")]).rename(columns={"key": "sensor"})
LONG = "fewer observations than warm_up (50), in which no alarm is raised: "

# Each misuse, and a part of the sentence that names the argument and the remedy. All that follow are errors.
ERRORS = {
    "typo": (lambda: hafvf.run(DF, detct=True), 'detct: unknown key; did you mean "detect"?'),
    "family": (lambda: hafvf.run(DF, family="gauss"), 'model.family: unknown value "gauss"; known here: ar, bernoulli'),
    "bernoulli of floats": (lambda: hafvf.run(DF, family="bernoulli"), "is neither 0 nor 1; see values= and family="),
    "no such key": (lambda: hafvf.run(DF, key="host"), "the frame has no column 'host'; it has ['key', 'time', 'x']"),
    "detect text": (lambda: hafvf.run(DF, detect="yes"), "detect: must be true, false, or a mapping"),
    "detect number": (lambda: hafvf.run(DF, detect=3), "detect: must be true, false, or a mapping"),
    "lateness": (lambda: hafvf.run(DF, lateness=5), "lateness: must be a duration such as 30m"),
    "zone": (lambda: hafvf.run(DF, zone="Europe/Berln"), "use an IANA name such as UTC or Europe/Berlin; see zone="),
    "states of others": (
        lambda: hafvf.run(DF, detect=True, states=STATES),
        "written with other levels, bank, bank_forgetting and detect",
    ),
    "stream of others": (lambda: hafvf.Stream(detect=True, states=STATES).update("a", 2e9, 1.0), "written with other levels"),
    "a result as states": (lambda: hafvf.run(DF, states=hafvf.run(DF)), "states=result.states"),
    "damaged states": (lambda: hafvf.run(DF, states={"a": b"x"}), "without its state the key begins anew"),
    "states of text": (lambda: hafvf.run(DF, states={"a": "x"}), "states has a str for the key 'a': give the bytes"),
    "states of a list": (lambda: hafvf.run(DF, states=["a"]), "states is a list: give the states of a result"),
    "no file": (lambda: hafvf.run(DF, settings="no.yaml"), "settings is no file: give a dict, or the path of a YAML file"),
    "YAML as a path": (lambda: hafvf.run(DF, settings="model: {family: normal}"), "settings is no file: give a dict"),
    "settings of a list": (lambda: hafvf.run(DF, settings=["x"]), "settings is a list: give a dict"),
    "positional": (lambda: hafvf.run(DF, "key"), "name the other arguments, as in key='key'"),
    "positional alerts": (lambda: hafvf.alerts(DF, "key"), "name the other arguments, as in key='key'"),
    "no times": (lambda: hafvf.run(DF.assign(time="soon")), 'nanoseconds; pd.to_datetime(df["time"], format=…) makes times'),
    "twice": (lambda: hafvf.run(DF, states=STATES), "states= have learned this time already, or give lateness="),
    "Go layout": (lambda: hafvf.run(TEXTS, time_format="02.01.2006 15:04"), 'as by pd.to_datetime(df["time"], format=…)'),
    "strftime": (lambda: hafvf.run(TEXTS, settings={"time_format": "%d.%m.%Y"}), 'as by pd.to_datetime(df["time"], format=…)'),
    "session": (lambda: hafvf.run(DF, session={"gap": "1h"}), "hafvf.smooth smooths sessions"),
    "smooth": (lambda: hafvf.run(DF, transform="smooth"), "hafvf.smooth smooths sessions"),
    "a missing value": (lambda: hafvf.run(DF, values=["x", "y"]), "the frame has no column 'y'"),
    "a vector": (
        lambda: hafvf.run(DF.assign(y=1.0), values=["x", "y"]),
        'a vector needs family="mvnormal"; columns that are series',
    ),
    "wide": (lambda: hafvf.run(DF[["time"]].assign(a=1.0, b=2.0)), "df.melt(id_vars=['time'], var_name='key', value_name='x')"),
    "wide by index": (lambda: hafvf.run(DF[["time"]].assign(a=1, b=2).set_index("time")), "df.melt(ignore_index=False, "),
    "family in settings": (
        lambda: hafvf.alerts(DF, settings={"family": "normal"}),
        'it belongs into model, as in settings={"model"',
    ),
    "no detection": (lambda: hafvf.alerts(DF, detect=False), "detect=False raises no alarms"),
    "two families": (lambda: hafvf.run(DF, model={"family": "normal"}, family="poisson"), "see values= and family="),
    "decimal comma": (lambda: hafvf.run(DF.assign(x=DF["x"].map(lambda v: f"{v:.2f}".replace(".", ",")))), "decimal=','"),
    "warm_up": (lambda: hafvf.run(DF, warm_up=-1), "model.warm_up: must be at least 2"),
    "levels": (lambda: hafvf.run(DF, levels=[{"alpha": -1, "beta": 2}]), "levels.0.alpha: must be greater than 0"),
    "top": (lambda: hafvf.run(DF, top=1.5, levels=[]), "top: must be in [0, 1]"),
    "detect.rat": (lambda: hafvf.run(DF, detect={"rat": 0.1}), 'detect.rat: unknown key; did you mean "rest"?'),
    "every": (lambda: hafvf.run(DF, aggregate={"every": 60, "value": "mean"}), "aggregate.every: must be a duration such as"),
    "a dict": (lambda: hafvf.run({"x": [1, 2]}), "data is a dict: give a DataFrame or a Series of pandas, polars or Arrow"),
    "1500": (lambda: hafvf.run(DF.head(2).assign(time=["1500-01-01", "1501-01-01"])), "outside of the years 1678 to 2261"),
    "no time": (lambda: hafvf.run(DF[["x"]]), "give time=… or order='arrival'"),
    "two keys": (lambda: hafvf.run(DF, key=["key", "x"]), "key is a list: give the name of one column; df.assign(key=…)"),
    "a column as key": (lambda: hafvf.run(DF, key=DF["key"]), "key is a Series: give the name of one column"),
    "complex": (lambda: hafvf.run(DF.assign(x=DF["x"] + 0j)), "'x' has the type complex128, and no numbers: give values="),
    "datetimes": (lambda: hafvf.run(DF.assign(x=DF["time"])), "and no numbers: give values= others"),
    "timedeltas": (lambda: hafvf.run(DF.assign(x=pd.to_timedelta(DF["x"], unit="s"))), "or .dt.total_seconds() of it"),
    "days": (lambda: hafvf.run(DF.assign(time=46023 + np.arange(N) / 24)), 'unit="D", origin="1899-12-30")'),
    "years": (
        lambda: hafvf.run(DF.assign(time=1900 + np.arange(N) // 2)),
        'format="%Y"), or pd.to_datetime(df[\'time\'], unit="s")',
    ),
}
WARNINGS = {
    "no key": (lambda: hafvf.run(TWO), "50 % of the times repeat, and without a key all rows are one series: key='sensor' may"),
    "no key there": (lambda: hafvf.run(TWO[["time", "x"]]), "all rows are one series: key= separates several series"),
    "short keys": (lambda: hafvf.alerts(DF.head(40)), LONG + "1 key, a"),
    "trial numbers": (lambda: hafvf.run(DF.assign(time=range(N))), "trial numbers need order='arrival' and no time="),
    "a config": (lambda: hafvf.run(DF, settings={"source": {"csv": {"path": "x"}}}), "not used here: source"),
    "some rejected": (
        lambda: hafvf.run(DF.assign(x=DF["x"].where(DF.index != 3, np.inf))),
        "1 row was rejected, the first is row 3",
    ),
}
RIGHT = {
    "timedelta": lambda: hafvf.run(DF, lateness=pd.Timedelta("5min")),
    "silence without detect": lambda: hafvf.run(DF, silence=True),
    "aggregate": lambda: hafvf.run(DF, aggregate={"every": "1h", "value": "mean"}),
    "arrival": lambda: hafvf.run(DF.drop(columns="time"), order="arrival"),
    "periods": lambda: hafvf.run(DF.set_index(DF["time"].dt.to_period("5min"))[["x"]]),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    do, said = ERRORS[name]
    with warnings.catch_warnings(), pytest.raises(Exception, match=re.escape(said)) as e:
        warnings.simplefilter("error")
        do()
    assert isinstance(e.value, (hafvf.HafvfError, KeyError, TypeError, ValueError, FileNotFoundError))


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings(name):
    do, said = WARNINGS[name]
    with pytest.warns(UserWarning, match=re.escape(said)) as found:
        do()
    assert [w.filename for w in found] == [__file__]


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_silent(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert RIGHT[name]().estimates["n"].max() > 0


def test_the_result_is_in_the_error():
    mixed = DF.assign(time=DF["time"].astype(object).where(DF.index < 50, "soon"), x=DF["x"].where(DF.index > 3, np.inf))
    with pytest.raises(hafvf.HafvfError) as e:
        hafvf.run(mixed)
    assert e.value.code == "rejected" and "row 0: x = +Inf is not finite" in str(e.value) and "row 50: the time" in str(e.value)
    for error in (e.value, pickle.loads(pickle.dumps(e.value))):
        assert len(error.result.rejected) == 74 and error.result.estimates["n"].max() == 46
