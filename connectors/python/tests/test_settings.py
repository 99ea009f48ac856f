import warnings
from datetime import date, timedelta

import numpy as np
import pytest
from test_frame import series

import hafvf


def test_a_dict_keywords_and_a_file_are_one(tmp_path):
    df = series(100)
    path = tmp_path / "hafvf.yaml"
    path.write_text("model: {family: normal, prior: auto}\ndetect: {budget: 24h, settling: 0s}\nlateness: 1m\n")
    want = hafvf.run(df, settings=path)
    settings = {
        "model": {"family": "normal", "prior": "auto"},
        "detect": {"budget": timedelta(days=1), "settling": "0s"},
        "lateness": "60s",
    }
    for got in (
        hafvf.run(df, settings=settings),
        hafvf.run(df, detect={"budget": np.timedelta64(1, "D"), "settling": timedelta(0)}, lateness=timedelta(minutes=1)),
        hafvf.run(df, settings=str(path), lateness=None),
    ):
        assert got.estimates.equals(want.estimates) and got.states == want.states


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"family": "norml"}, "normal"),
        ({"lateness": "soon"}, "lateness"),
        ({"detct": True}, "detect"),
        ({"family": "normal", "prior": {"mu": 0, "kapa": 1}}, "kapa"),
        ({"transform": "smooth"}, "transform"),
        ({"detect": object()}, "object"),
    ],
)
def test_what_is_wrong_is_said_as_the_program_says_it(keywords, says):
    with pytest.raises(hafvf.HafvfError, match=says) as e:
        hafvf.run(series(5), **keywords)
    assert e.value.code == "settings"


def test_a_file_is_named_with_its_line(tmp_path):
    path = tmp_path / "hafvf.yaml"
    path.write_text("model: {family: normal}\n\nlatenes: 5m\n")
    with pytest.raises(hafvf.HafvfError, match="hafvf.yaml:3: latenes: unknown key; did you mean"):
        hafvf.run(series(5), settings=path)
    path.write_text("quiet: [{match: a, from: 2026-01-01 00:10, to: 2026-01-01 00:20}]\ndetect: {holidays: [2026-12-25]}\n")
    assert hafvf.filter(series(100, keys=("a",)), settings=path, records="full")["quiet"].sum() == 10


def test_a_whole_config_is_accepted(tmp_path):
    path = tmp_path / "hafvf.yaml"
    path.write_text(
        "model: {family: normal, prior: auto}\nsource: {csv: {path: in.csv}}\nsink: none\nstate: states\nincidents: true\n"
    )
    with pytest.warns(
        UserWarning,
        match="not used here: source, sink, state, incidents; state: pass the states",
    ) as found:
        got = hafvf.run(series(20), settings=path)
    assert len(found) == 1 and len(got.estimates) == 40
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hafvf.run(series(20), settings={"model": {"family": "normal"}})


def test_files_of_settings_are_read(tmp_path):
    df = series(100, keys=("a",))
    (tmp_path / "quiet.jsonl").write_text('{"match":"a","from":"2026-01-01T00:10:00Z","to":"2026-01-01T00:20:00Z"}\n\n')
    (tmp_path / "days").write_text("2026-01-01 # new year\n\n2026-12-25\n")
    got = hafvf.filter(df, quiet=[{"file": str(tmp_path / "quiet.jsonl")}], detect={"holidays": {"file": str(tmp_path / "days")}})
    assert got["quiet"].sum() == 10
    same = hafvf.filter(
        df,
        quiet=[{"match": "a", "from": "2026-01-01T00:10:00Z", "to": "2026-01-01T00:20:00Z"}],
        detect={"holidays": [date(2026, 1, 1), date(2026, 12, 25)]},
    )
    assert got.equals(same)
    with pytest.raises(FileNotFoundError):
        hafvf.filter(df, quiet=[{"file": str(tmp_path / "none.jsonl")}])
