import math

import pandas as pd
import pytest
from conftest import ROOT

beam = pytest.importorskip("apache_beam")
Specifiable = pytest.importorskip("apache_beam.ml.anomaly.specifiable").Specifiable  # not in old versions of Beam

from apache_beam.internal import cloudpickle_pickler  # noqa: E402

import hafvf  # noqa: E402
from hafvf.anomaly import HAFVF  # noqa: E402


def labels_of(detector, rows):
    labels = []
    for row in rows:
        score = detector.score_one(beam.Row(**row))
        detector.learn_one(beam.Row(**row))
        labels.append(detector._threshold_criterion.apply(score))
    return labels


@pytest.mark.parametrize("timed", [True, False])
def test_labels_are_the_alarms_of_the_program(timed, run_program, tmp_path):
    df = pd.read_csv(ROOT / "testdata" / "nab" / "cloud.csv")
    df = df[df["key"] == "rds_cpu_e47b3b"].drop(columns=["key"] if timed else ["key", "time"])
    df.to_csv(tmp_path / "in.csv", index=False)
    model = "model: {family: normal, prior: auto}\ndetect: true\norder: arrival\n"
    config = model + f"source: {{csv: {{path: {tmp_path}/in.csv, key: none}}}}"
    _, alerts, _ = run_program(config)
    detector = HAFVF(time="time" if timed else None, _run_init=True)
    rows = df.to_dict("records")
    labels = labels_of(detector, rows)
    places = [int(a["id"].split(":")[1]) - 2 for a in alerts]
    assert [i for i, label in enumerate(labels) if label == 1] == places != []
    assert labels.count(-2) < 100  # the warm-up has no score


def test_rows_that_are_not_learned():
    detector = HAFVF(time="time", _run_init=True)
    rows = [{"x": float(i % 5), "time": f"2026-01-01T00:{i:02}:00Z"} for i in range(60)]
    labels_of(detector, rows)
    before = detector._state
    for bad in ({"x": "much", "time": rows[0]["time"]}, {"x": 1.0, "time": "soon"}):
        assert labels_of(detector, [bad]) == [-2] and detector._state == before
    assert labels_of(detector, [{"x": None, "time": "2026-01-01T01:00:00Z"}]) == [-2]
    assert labels_of(detector, [{"x": math.inf, "time": "2026-01-01T01:01:00Z"}]) == [1]  # the program raises an alarm, too


def test_it_is_pickled_with_what_it_knows():
    detector = HAFVF(_run_init=True)
    rows = [{"x": float(i % 5)} for i in range(60)]
    labels_of(detector, rows)
    again = cloudpickle_pickler.loads(cloudpickle_pickler.dumps(detector))
    assert again.score_one(beam.Row(x=1.0)) == detector.score_one(beam.Row(x=1.0))


def test_a_spec_makes_it_again():
    spec = HAFVF(features=["u", "v"], family="mvnormal", dim=2).to_spec()
    spec.config["_run_init"] = True
    assert Specifiable.from_spec(spec)._values == ["u", "v"]
    with pytest.raises(hafvf.HafvfError, match="norml"):
        HAFVF(family="norml")
    with pytest.raises(hafvf.HafvfError, match='did you mean "detect"'):
        HAFVF(detct=True)
    with pytest.raises(KeyError, match=r"no field 'x': give features= or time= of \['y'\]"):
        HAFVF().score_one(beam.Row(y=1.0))
