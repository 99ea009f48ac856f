import json
import runpy
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


def test_stream(capsys, messages):
    runpy.run_path(str(EXAMPLES / "stream.py"))
    lines = capsys.readouterr().out.splitlines()
    silent = [line for line in lines if " silent since " in line]
    assert sorted(set(lines).difference(silent)) == sorted(set(messages)) and len(silent) == 8


def test_bounded(capsys, messages):
    pytest.importorskip("apache_beam")
    runpy.run_path(str(EXAMPLES / "bounded.py"))
    assert sorted(json.loads(line)["message"] for line in capsys.readouterr().out.splitlines()) == messages
