import json
import os
import pickle
import random

import pandas as pd
import pytest
from conftest import ROOT

beam = pytest.importorskip("apache_beam")

from apache_beam.options.pipeline_options import PipelineOptions  # noqa: E402
from apache_beam.transforms.window import FixedWindows  # noqa: E402

import hafvf  # noqa: E402
import hafvf.beam  # noqa: E402

FN_API_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"  # old versions know no short name


def collect(build, tmp_path, options=()):
    """Runs a pipeline and returns the dicts of its collections in the order of names."""
    names = ("estimates", "alerts", "rejected")
    if flink := os.environ.get("HAFVF_FLINK"):  # job server of a cluster, see internal/testing/e2e/flink/python_test.go
        options = ["--runner=PortableRunner", f"--job_endpoint={flink}", "--environment_type=LOOPBACK", "--parallelism=2"]
    with beam.Pipeline(options=PipelineOptions(options or [f"--runner={FN_API_RUNNER}"])) as p:
        found = build(p)
        for name in names:
            lines = getattr(found, name) | f"JSON of {name}" >> beam.Map(json.dumps, sort_keys=True)
            lines | f"Write {name}" >> beam.io.WriteToText(str(tmp_path / name), shard_name_template="")
    return [[json.loads(line) for line in (tmp_path / name).read_text().splitlines()] for name in names]


def by_id(records):
    return sorted(records, key=lambda r: (r["key"], r["time"] or "", r.get("id") or "", r.get("kind") or ""))


# If LONG is set, tests use all keys of the file, which takes long.
LONG = "HAFVF_KILLS" in os.environ or "HAFVF_FLINK" in os.environ


@pytest.mark.parametrize("order", ["whole", "shuffled", "two_workers", "Prism"])
def test_records_and_alerts_are_those_of_the_program(order, run_program, tmp_path, request):
    options = []
    if order == "two_workers":
        options = [f"--runner={FN_API_RUNNER}", "--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    elif order == "Prism":
        options = request.getfixturevalue("prism")
    df = pd.read_csv(ROOT / "testdata" / "nab" / "cloud.csv")
    if not LONG:
        df = df[df["key"].isin(df["key"].unique()[:2])]
    df.to_csv(tmp_path / "in.csv", index=False)
    rows = [
        (key, time, x, f"in.csv:{i + 2}") for i, (key, time, x) in enumerate(zip(df["key"], df["time"], df["x"], strict=True))
    ]
    if order == "shuffled":
        random.Random(1).shuffle(rows)
    estimates, alerts, rejected = collect(
        lambda p: p | beam.Create(rows) | hafvf.beam.Filter(detect=True, silence=True, observe=lambda row: row),
        tmp_path,
        options,
    )
    config = f"model: {{family: normal, prior: auto}}\ndetect: true\nsilence: true\nsource: {{csv: {{path: {tmp_path}/in.csv}}}}"
    want, told, _ = run_program(config)
    assert by_id(estimates) == by_id(want)
    assert by_id(alerts) == by_id(told) != []
    assert rejected == []


def test_what_is_wrong_is_rejected(tmp_path):
    rows = [("a", (f"2026-01-01T00:{i:02}:00Z", float(i))) for i in range(10)]
    rows += [
        ("a", ("soon", 1.0)),
        ("a", ("2026-01-01T00:30:00Z", [1.0, 2.0])),
        ("a", ("2026-01-01T00:31:00Z", float("inf"))),
        (None, ("2026-01-01T00:31:00Z", 1.0)),
    ]
    estimates, _, rejected = collect(lambda p: p | beam.Create(rows) | hafvf.beam.Filter(), tmp_path)
    assert [r["x"] for r in by_id(estimates)] == [float(i) for i in range(10)]
    reasons = sorted(r["reason"] for r in rejected)
    assert len(reasons) == 4 and "2 numbers, expected 1" in reasons[0] and "no key" in reasons[1]
    assert any("soon" in r for r in reasons) and any("not finite" in r for r in reasons)


@pytest.mark.parametrize(
    ("elements", "make", "said"),
    [
        ([1.0], {}, "element 1.0 is no KV"),
        ([("a", 1.0)], {}, r"element \('a', 1.0\) is no KV.*observe="),
        ([{"key": "a", "x": 1.0}], {}, "is no KV.*observe="),
        ([("a", 1.0)], {"observe": lambda e: e}, "observe has made .*it has to return"),
    ],
)
def test_elements_of_the_wrong_form_end_the_pipeline(elements, make, said):
    with pytest.raises(TypeError, match=said), beam.Pipeline(runner=FN_API_RUNNER) as p:
        p | beam.Create(elements) | hafvf.beam.Filter(**make)


def test_misuses_of_the_transforms():
    with beam.Pipeline(runner=FN_API_RUNNER) as p:
        rows = p | beam.Create([("a", ("2026-01-01", 1.0)), ("a", ("soon", 1.0))])
        found = rows | hafvf.beam.Filter()
        with pytest.raises(AttributeError, match="a Filter has no alarms: it has estimates, alerts and rejected"):
            _ = found.alarms
        with pytest.raises(beam.typehints.TypeCheckError):
            found.alerts | beam.Map(len).with_input_types(list[int])
        for misuse in (lambda: found | beam.Map(print), lambda: list(found)):
            with pytest.raises(TypeError, match="three collections: use its .estimates"):
                misuse()
        with pytest.raises(TypeError, match="takes rows with a schema"):
            rows | "Rows" >> hafvf.beam.FilterRows()
        with pytest.raises(ValueError, match="filter before WindowInto"):
            rows | beam.WindowInto(beam.window.FixedWindows(60)) | "In windows" >> hafvf.beam.Filter()
    counters = p.result.metrics().query(beam.metrics.MetricsFilter().with_namespace("hafvf"))["counters"]
    assert [(c.key.metric.name, c.committed) for c in counters] == [("rejected", 1)]
    for settings, said in (({"detct": True}, 'did you mean "detect"'), ({"transform": "smooth"}, "hafvf.smooth")):
        with pytest.raises(hafvf.HafvfError, match=said):
            hafvf.beam.Filter(**settings)


def test_event_times(tmp_path):
    def build(p):
        stamped = p | beam.Create(range(5)) | beam.Map(lambda i: beam.window.TimestampedValue(("a", (None, 1.0)), 1767225600 + i))
        return stamped | hafvf.beam.Filter()

    estimates, _, _ = collect(build, tmp_path)
    assert [r["time"] for r in by_id(estimates)] == [f"2026-01-01T00:00:0{i}Z" for i in range(5)]


def test_nanoseconds(tmp_path):
    """Event times have microseconds, records have nanoseconds."""
    rows = [("a", ("2026-01-01T00:00:00.123456789Z", 1.0)), ("a", (1767225600123456790, 2.0))]
    estimates, _, _ = collect(lambda p: p | beam.Create(rows) | hafvf.beam.Filter(), tmp_path)
    assert [r["time"][-11:] for r in by_id(estimates)] == [".123456789Z", "0.12345679Z"]


def test_kills_change_nothing(tmp_path, kills):
    n = 8_000 if "HAFVF_KILLS" not in os.environ else 100_000
    rows = [(f"k{i % 40}", (1767225600 + 60 * (i // 40), float(i * 7919 % 31))) for i in range(n)]

    def build(p):
        return p | beam.Create(rows) | hafvf.beam.Filter(detect=True)

    want = collect(build, tmp_path)
    with kills() as killed:
        got = collect(build, tmp_path)
    assert len(killed) == int(os.environ.get("HAFVF_KILLS", 4))
    assert [by_id(g) for g in got] == [by_id(w) for w in want]


def test_transforms_are_pickled():
    for transform in (hafvf.beam.Filter(detect=True), hafvf.beam.FilterRows(values=["u", "v"], family="mvnormal", dim=2)):
        pickle.loads(pickle.dumps(transform))


def test_names_of_steps_are_fixed():
    p = beam.Pipeline()
    p | beam.Create([("a", (0, 1.0))]) | "Changes" >> hafvf.beam.Filter()
    names = {name.split("/")[1] for name in p.applied_labels if name.startswith("Changes/")}
    assert names == {"Observe", "Times", "Latest", "Keys", "Filter", "Rejected"}


def test_what_cannot_be_filtered_is_refused_where_it_is_built(tmp_path):
    with pytest.raises(ValueError, match="global window"):
        beam.Pipeline() | beam.Create([("a", (0, 1.0))]) | beam.WindowInto(FixedWindows(60)) | hafvf.beam.Filter()
    with pytest.raises(ValueError, match="wait=False"):
        hafvf.beam.Filter(order="arrival")
    with pytest.raises(hafvf.HafvfError, match="family"):
        hafvf.beam.Filter(family="norml")
    (tmp_path / "settings.yaml").write_text("detect: true\nsilence: soon\n")
    with pytest.raises(hafvf.HafvfError, match="settings.yaml:2: silence"):
        hafvf.beam.Filter(tmp_path / "settings.yaml")


def test_rows(tmp_path):
    """Rows with a schema give the same results as elements, with null for unknown values."""
    day = [f"2026-01-01T{i // 60:02}:{i % 60:02}:00Z" for i in range(300)]
    rows = [beam.Row(sensor="a", at=at, u=float(i % 7) + 20 * (i >= 250), id=f"id{i}") for i, at in enumerate(day)]
    rows.append(beam.Row(sensor="a", at="soon", u=1.0, id="bad"))
    rows[9] = beam.Row(sensor="a", at=day[9], u=None, id="none")
    kind = beam.typehints.row_type.RowTypeConstraint.from_fields([("sensor", str), ("at", str), ("u", float | None), ("id", str)])

    class Dicts(beam.PTransform):
        def __init__(self, *args, **about):
            self.filter = hafvf.beam.FilterRows(*args, **about)

        def expand(self, pcoll):
            found = pcoll | self.filter
            schemas.update({name: dict(p.element_type._fields) for name, p in found.items()})
            return hafvf.beam.Found(
                *(found[name] | f"Dicts of {name}" >> beam.Map(plain) for name in ("estimates", "alerts", "rejected"))
            )

    def plain(row):
        return {name: str(v) if isinstance(v, beam.utils.timestamp.Timestamp) else v for name, v in row._asdict().items()}

    schemas = {}
    estimates, alerts, rejected = collect(
        lambda p: (
            p | beam.Create(rows).with_output_types(kind) | Dicts(key="sensor", time="at", values="u", id="id", detect=True)
        ),
        tmp_path,
    )
    df = pd.DataFrame([row._asdict() for row in rows[:-1]])
    want = hafvf.run(df, key="sensor", time="at", values="u", id="id", detect=True)
    assert list(schemas["estimates"]) == list(want.estimates.columns) and set(estimates[0]) == set(schemas["estimates"])
    got = pd.DataFrame(sorted(estimates, key=lambda r: r["n"]))
    for name in ("n", "x", "predicted_mean", "detect_score"):
        assert [None if v != v else v for v in got[name].tolist()] == [
            None if v is pd.NA or v != v else v for v in want.estimates[name].tolist()
        ]
    assert got["x"].isna().tolist().index(True) == 9 and got["id"].tolist() == df["id"].tolist()
    assert [a["message"] for a in alerts] == want.alerts["message"].tolist() != []
    assert [r["id"] for r in rejected] == ["bad"]
    timestamp = beam.utils.timestamp.Timestamp | None
    assert schemas["alerts"]["time"] == schemas["alerts"]["start"] == schemas["estimates"]["time"] == timestamp


def test_rows_that_cannot_be_filtered_are_refused_where_it_is_built():
    rows = beam.Pipeline() | beam.Create([beam.Row(key="a", x=1.0)])
    with pytest.raises(KeyError, match="no field 'y'"):
        rows | hafvf.beam.FilterRows(values="y")
    with pytest.raises(TypeError, match="schema"):
        beam.Pipeline() | beam.Create([("a", (0, 1.0))]) | hafvf.beam.FilterRows()
