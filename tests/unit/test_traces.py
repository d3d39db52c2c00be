"""Readers of Coflow traces: what they make of good files, and that every bad one is refused by file and line."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import experiments
from echelonflow.errors import InputError
from traffic.workloads import traces
from traffic.workloads.traces import _columns, _lines
from traffic.workloads.traces.coflow_benchmark import Shuffle, write

MB = 1 << 20
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
SHIPPED = Path(experiments.__file__).parent / "traces"


def read(tmp_path, text, name="coflow-benchmark", **options):
    path = tmp_path / "trace.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return traces.read(name, path, options)


def read_or_refuse(*arguments):
    """The trace and nothing, or nothing and the words of its refusal."""
    try:
        return read(*arguments), ""
    except InputError as error:
        return None, str(error)


def rows(trace):
    """Every flow as (id, arrival, src, dst, bytes)."""
    columns = (trace.coflow_id[trace.coflow], trace.arrival_s[trace.coflow], trace.src, trace.dst, trace.size_bytes)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_reducers_bytes_come_in_equal_shares_from_all_mappers(tmp_path):
    trace = read(tmp_path, "4 2\n7 1500 2 0 3 1 2:5.0\n3 0 1 1 2 0:1 1:2.5\n")
    assert rows(trace) == [
        (7, 1.5, 0, 2, 2.5 * MB),
        (7, 1.5, 3, 2, 2.5 * MB),
        (3, 0.0, 1, 0, MB),
        (3, 0.0, 1, 1, 2.5 * MB),
    ]


def test_the_other_format_gives_each_flow_its_own_size(tmp_path):
    trace = read(tmp_path, "5 2\n0 8 2 2 1 0 1 1 2 1 7\n4 34 1 1 1 3 0 0.5\n", "sincronia")
    assert rows(trace) == [(0, 0.008, 0, 1, MB), (0, 0.008, 2, 1, 7 * MB), (4, 0.034, 3, 0, MB / 2)]


def test_what_a_megabyte_is_can_be_said(tmp_path):
    assert read(tmp_path, "2 1\n0 0 1 0 1 1:3\n", megabyte_bytes=10**6).size_bytes.tolist() == [3e6]


def test_blank_lines_and_line_ends_of_other_systems_carry_no_meaning(tmp_path):
    plain = rows(read(tmp_path, "2 1\n0 0 1 0 1 1:3\n"))
    assert rows(read(tmp_path, "\r\n2  1\r\n\n0 0 1 0 1 1:3\r\n\r\n")) == plain
    assert rows(read(tmp_path, "2 1\n0 0 1 0 1 1:3")) == plain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: the file ends where the number of ports and the number of Coflows was expected"),
        ("3", "line 1: ends where the number of Coflows was expected"),
        ("0 1\n", "line 1: '0' stands where the number of ports was expected: a whole number, 1 to"),
        ("3 0\n", "line 1: '0' stands where the number of Coflows was expected: a whole number, at least 1"),
        ("3 1 5\n", "line 1: '5' stands where the line was expected to end"),
        ("3 2\n0 0 1 0 1 1:3\n", "line 2: the file ends after 1 Coflows; line 1 announces 2"),
        ("3 1\n0 0 1 0 1 1:3\n1 0 1 0 1 1:3\n", "line 3: is one Coflow more than the 1 that line 1 announces"),
        ("3 2\n5 0 1 0 1 1:3\n5 9 1 0 1 1:3\n", "line 3: Coflow 5 stands on line 2 already; ids are unique"),
        ("3 1\nx 0 1 0 1 1:3\n", "line 2: 'x' stands where the id of a Coflow was expected"),
        ("3 1\n0 -4 1 0 1 1:3\n", "line 2: Coflow 0 arrives at -4 ms; expected 0 or later"),
        ("3 1\n0 soon 1 0 1 1:3\n", "line 2: 'soon' stands where the arrival in milliseconds was expected"),
        ("3 1\n0 1e999 1 0 1 1:3\n", "line 2: '1e999' stands where the arrival in milliseconds was expected"),
        ("3 1\n0 nan 1 0 1 1:3\n", "line 2: 'nan' stands where the arrival in milliseconds was expected"),
        ("3 1\n0 0 0 1 1:3\n", "line 2: '0' stands where the number of mappers was expected"),
        ("3 1\n0 0 1 0 0\n", "line 2: '0' stands where the number of reducers was expected"),
        (
            "3 1\n0 0 1 3 1 1:3\n",
            "line 2: '3' stands where the port of mapper 1 of 1 was expected: a whole number, 0 to 2",
        ),
        ("3 1\n0 0 1 0 1 3:3\n", "line 2: '3' stands where the port of reducer 1 of 1 was expected"),
        ("3 1\n0 0 1 0 1 1:-3\n", "line 2: the size of reducer 1 of 1 is -3 MB; expected more than 0"),
        ("3 1\n0 0 1 0 1 1:0\n", "line 2: the size of reducer 1 of 1 is 0 MB; expected more than 0"),
        ("3 1\n0 0 1 0 1 13\n", "line 2: '13' stands where reducer 1 of 1 was expected: <port>:<MB>"),
        ("3 1\n0 0 1 0 2 1:3\n", "line 2: ends where reducer 2 of 2"),
        ("3 1\n0 0 1 0 1 1:3 2:3\n", "line 2: '2:3' stands where the line was expected to end, after 1 reducers"),
        ("3 1\n0 0 3 0 1 1:3\n", "line 2: '1:3' stands where the port of mapper 3 of 3 was expected"),
        ("3 1\n\n\n0 0 1 0 1 1:_3\n", "line 4: '_3' stands where the size of reducer 1 of 1 was expected"),
        (b"3 1\n0 0 1 0 1 1:\xb2\n", "line 2: is not text: byte 0xb2 at column 13"),
        (b"\x7fELF\x02\x01\x00\x00\n", "line 1: '\\x7fELF"),
        ("3 1\n0 0 1 0 99999999999 1:3\n", "line 2: brings the trace to 99999999999 flows; at most"),
        ("9" * 5000 + " 1\n", "line 1: '9999999999999999999999999999999999999999...' stands"),
    ],
)
def test_a_bad_line_is_named_with_what_was_expected(tmp_path, text, words):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'trace.txt'}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0 8 0 1 1", "'0' stands where the number of flows was expected"),
        ("0 8 2 1 1 0 1 1", "ends where the source of flow 2 of 2 was expected"),
        ("0 8 1 1 1 0 1", "ends where the size of flow 1 of 1 was expected"),
        ("0 8 1 1 1 0 5 1", "'5' stands where the destination of flow 1 of 1 was expected: a whole number, 0 to 4"),
        ("0 8 1 1 1 0 1 -1", "the size of flow 1 of 1 is -1 MB; expected more than 0"),
        ("0 8 1 1 1 0 1 1 2 1 1", "'2' stands where the line was expected to end, after 1 flows"),
    ],
)
def test_a_bad_line_of_the_other_format_is_named_too(tmp_path, line, words):
    with pytest.raises(InputError, match="line 2") as caught:
        read(tmp_path, f"5 1\n{line}\n", "sincronia")
    assert words in str(caught.value)


def test_what_is_no_regular_file_is_neither_waited_for_nor_read_for_ever(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(InputError, match="not a regular file"):
            traces.read("sincronia", path, {})
    with pytest.raises(InputError, match="cannot be read: No such file"):
        traces.read("sincronia", tmp_path / "nothing", {})


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(_lines, "MAX_LINE_BYTES", 1 << 20)
    with pytest.raises(InputError, match="line 1: is longer than 1 MiB"):
        read(tmp_path, b"1 " * (1 << 20))


def test_too_many_flows_are_refused_before_they_are_made(tmp_path, monkeypatch):
    monkeypatch.setattr(_columns, "MAX_FLOWS", 10)
    with pytest.raises(InputError, match="line 3: brings the trace to 12 flows; at most 10"):
        read(tmp_path, "9 2\n0 0 2 0 1 4 1:1 2:1 3:1 4:1\n1 0 2 0 1 2 1:1 2:1\n")


def test_an_unknown_format_is_answered_with_those_there_are(tmp_path):
    with pytest.raises(InputError, match="unknown trace format 'csv'; there is: coflow-benchmark, sincronia"):
        traces.read("csv", tmp_path, {})


@pytest.mark.parametrize("name", traces.names())
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.one_of(st.binary(max_size=300), st.text("0123456789 .:\n-e", max_size=200).map(str.encode)))
def test_any_bytes_are_a_trace_or_an_input_error(tmp_path, name, body):
    trace, refusal = read_or_refuse(tmp_path, body, name)
    if trace is None:
        assert "trace.txt: line " in refusal
    else:
        assert trace.flows >= trace.coflows >= 1


PORTS = 5
SHUFFLES = st.lists(
    st.tuples(
        st.integers(0, 10**7),
        st.lists(st.integers(0, PORTS - 1), min_size=1, max_size=4),
        st.lists(st.tuples(st.integers(0, PORTS - 1), st.floats(1e-3, 1e6)), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=SHUFFLES)
def test_what_is_written_is_read(tmp_path, drawn):
    shuffles = [Shuffle(i, at, tuple(m), tuple(r)) for i, (at, m, r) in enumerate(drawn)]
    expected = [
        (s.id, s.arrival_ms / 1e3, mapper, port, size * MB / len(s.mappers))
        for s in shuffles
        for port, size in s.reducers
        for mapper in s.mappers
    ]
    assert rows(read(tmp_path, write(PORTS, shuffles))) == expected


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_trace_cut_off_anywhere_is_refused_or_loses_only_its_end(tmp_path, data):
    """A cut inside the last number cannot be seen (12.5 cut to 12); everywhere else it is."""
    text = write(PORTS, [Shuffle(i, i * 10, (0, 1), ((2, 12.5), (3, 1.0))) for i in range(4)])
    cut = data.draw(st.integers(0, len(text) - 1))
    trace, refusal = read_or_refuse(tmp_path, text[:cut])
    if trace is None:
        assert "trace.txt: line " in refusal
    else:
        assert cut > text.rindex(":")
        assert trace.flows == 16


def test_the_shipped_trace_is_what_its_generator_writes():
    made = runpy.run_path(str(SHIPPED / "generate.py"))
    assert (SHIPPED / "shuffles.txt").read_text() == write(made["PORTS"], made["shuffles"]())


@pytest.mark.skipif(not (SHARED / "coflow-benchmark").is_dir(), reason="the Facebook trace is not there")
def test_the_facebook_trace_is_read_whole():
    trace = traces.read("coflow-benchmark", SHARED / "coflow-benchmark" / "FB2010-1Hr-150-0.txt", {})
    assert (trace.coflows, trace.flows) == (526, 706_397)
    assert (trace.src.min(), trace.src.max(), trace.dst.min(), trace.dst.max()) == (0, 149, 0, 149)
    assert np.bincount(trace.coflow).max() == 21_170
    assert trace.size_bytes.sum() / MB == pytest.approx(35_533_534)
    assert trace.arrival_s.max() == pytest.approx(3629.235)


@pytest.mark.skipif(not (SHARED / "sincronia").is_dir(), reason="the Sincronia traces are not there")
@pytest.mark.parametrize(
    ("file", "coflows", "flows"), [("10-0.9-FB-UPWS.txt", 10, 21), ("200-0.9-FB-UPWS.txt", 200, 1682)]
)
def test_sincronias_own_traces_are_read_whole(file, coflows, flows):
    trace = traces.read("sincronia", SHARED / "sincronia" / file, {})
    assert (trace.coflows, trace.flows) == (coflows, flows)
