import json
import runpy
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from conftest import ROOT

import hafvf

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def messages():
    return sorted(hafvf.alerts(pd.read_csv(ROOT / "testdata" / "nab" / "cloud.csv"))["message"])


def test_two_days(capsys, messages):
    runpy.run_path(str(EXAMPLES / "two_days.py"))
    assert sorted(line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()) == messages


@pytest.fixture(scope="module")
def messages_of_two():
    df = pd.read_csv(ROOT / "testdata" / "nab" / "cloud.csv")
    return sorted(hafvf.alerts(df[df["key"].str.startswith("rds")])["message"])


def test_stream(capsys, messages_of_two):
    runpy.run_path(str(EXAMPLES / "stream.py"))
    lines = capsys.readouterr().out.splitlines()
    silent = [line for line in lines if " silent since " in line]
    assert sorted(set(lines).difference(silent)) == sorted(set(messages_of_two)) and len(silent) == 2


def test_bounded(capsys, messages_of_two):
    pytest.importorskip("apache_beam")
    runpy.run_path(str(EXAMPLES / "bounded.py"))
    assert sorted(json.loads(line)["message"] for line in capsys.readouterr().out.splitlines()) == messages_of_two


def test_unbounded(capfd):
    pytest.importorskip("apache_beam")
    runpy.run_path(str(EXAMPLES / "unbounded.py"))
    silent, change = capfd.readouterr().out.splitlines()
    assert silent.startswith("fan silent since 2026-01-01 07:59") and change.startswith("pump is ")


def test_yaml(tmp_path, messages):
    pytest.importorskip("apache_beam.yaml")
    (tmp_path / "testdata").symlink_to(ROOT / "testdata")
    filter_yaml = f"--yaml_pipeline_file={EXAMPLES / 'filter.yaml'}"
    subprocess.run([sys.executable, "-m", "apache_beam.yaml.main", "--runner=FnApiRunner", filter_yaml], cwd=tmp_path, check=True)
    (written,) = tmp_path.glob("alerts.jsonl*")
    assert sorted(json.loads(line)["message"] for line in written.read_text().splitlines()) == messages


def test_anomaly(capfd):
    pytest.importorskip("apache_beam")
    runpy.run_path(str(EXAMPLES / "anomaly.py"))
    df = pd.read_csv(ROOT / "testdata" / "nab" / "cloud.csv")[:6000]
    alarms = hafvf.alerts(df, order="arrival")
    times = alarms["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    want = {f"{time} {key}: {x}" for key, time, x in zip(alarms["key"], times, alarms["x"], strict=True)}
    assert set(capfd.readouterr().out.splitlines()) == want != set()


def test_trials(tmp_path, monkeypatch, capsys, program):
    """The numbers equal the numbers of the program within a grid step."""
    pytest.importorskip("scipy")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "trials.py"))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    Path("trials.yaml").write_text(
        "model: {family: bernoulli}\norder: arrival\nsource: {csv: {path: trials.csv, key: subject, values: [outcome]}}\n"
        "sink: {jsonl: {path: out.jsonl}}\n"
    )
    fit = "fit trials.yaml --set levels=[] --over top --response choice --choice choice -o people.csv"
    subprocess.run([program, *fit.split()], check=True)
    people = pd.read_csv("people.csv")
    assert [line[0] for line in lines] == people["key"].tolist() == list("abcdef")
    assert [float(line[1]) for line in lines] == pytest.approx((1 - people["top"]).tolist(), abs=0.015)
    less = people["log_likelihood"] - [float(line[3]) for line in lines]
    assert less.between(-0.01, 0.5).all()  # the program also searches between the grid steps


def test_plot(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "plot.py"))
    assert Path("alarms.png").read_bytes().startswith(b"\x89PNG")
