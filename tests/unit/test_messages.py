from __future__ import annotations

import contextlib
import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelonflow.errors import InputError
from echelonflow.wire import messages


def values_of(kind):  # noqa: PLR0911 one return for each kind of type
    """Values of a type, as msgspec describes it, within its bounds. JSON has neither NaN nor infinity."""
    match kind:
        case msgspec.inspect.StructType():
            return st.builds(kind.cls, **{field.name: values_of(field.type) for field in kind.fields})
        case msgspec.inspect.VarTupleType():
            most = min(kind.max_length or 5, 5)
            return st.lists(values_of(kind.item_type), min_size=kind.min_length or 0, max_size=most).map(tuple)
        case msgspec.inspect.UnionType():
            return st.one_of(*map(values_of, kind.types))
        case msgspec.inspect.StrType():
            return st.text(min_size=kind.min_length or 0, max_size=min(kind.max_length or 20, 20))
        case msgspec.inspect.IntType():
            least = kind.ge if kind.gt is None else kind.gt + 1
            most = kind.le if kind.lt is None else kind.lt - 1
            return st.integers(least, most)
        case msgspec.inspect.FloatType():
            least, over = (kind.ge, False) if kind.gt is None else (kind.gt, True)
            return st.floats(least, kind.le, exclude_min=over, allow_nan=False, allow_infinity=False)
        case msgspec.inspect.NoneType():
            return st.none()
    if isinstance(kind, msgspec.inspect.LiteralType):
        return st.sampled_from(kind.values)
    if isinstance(kind, msgspec.inspect.TupleType):
        return st.tuples(*map(values_of, kind.item_types))
    raise TypeError(kind)


EVERY_MESSAGE = st.one_of(*(values_of(msgspec.inspect.type_info(kind)) for kind in typing.get_args(messages.Message)))


@given(EVERY_MESSAGE)
def test_what_is_encoded_is_decoded_unchanged(message):
    line = messages.encode(message)
    assert line.count(b"\n") == 1
    assert messages.decode(line) == message


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"not json", "not a JSON message"),
        (b"[1]", "unknown message type None"),
        (b'{"type":"explode"}', "unknown message type 'explode'"),
        (b'{"type":"start"}', "start: missing field zero_s"),
        (b'{"type":"start","zero_s":"now"}', "start.zero_s: expected float"),
        (b'{"type":"start","zero_s":1,"x":2}', "start: unknown field x"),
        (b'{"type":"release","job":"j","flow":"f","iteration":true,"time_s":0.0}', "iteration: expected int"),
        (b'{"type":"decide","settings":[{"job":1}]}', r"settings\[0\].job: expected str"),
        # What felled a standing controller, or ended in an error that nobody caught.
        (b'{"type":[]}', "unknown message type None"),
        (b'{"type":"progress","job":"j","flow":"f","iteration":0,"sent_bytes":1' + b"0" * 400 + b"}", "progress.sent_bytes: expected int <= 4398046511104"),
        (b'{"type":"progress","job":"j","flow":"f","iteration":1048576,"sent_bytes":1}', "progress.iteration: expected int <= 1048575"),
        (b'{"type":"progress","job":"","flow":"f","iteration":0,"sent_bytes":1}', "progress.job: expected str of length >= 1"),
        (b'{"type":"hello","client":"c","host":"h1","x":' + b"[" * 3000 + b"]" * 3000 + b"}", "not a message: nested too deeply"),
        (b"[" * 100_000, "unknown message type None"),
        (b'{"type":"release","job":"j","flow":"f","iteration":0,"time_s":1e999}', "release.time_s: number out of range"),
        (b'{"type":"release","job":"j","flow":"f","iteration":0,"time_s":NaN}', "not a JSON message"),
    ],
)  # fmt: skip
def test_nonsense_is_named(line, reason):
    with pytest.raises(InputError, match=reason):
        messages.decode(line)


@pytest.mark.parametrize("size_bytes", [0, -1, 1 << 43, 1 << 63, 10**400])
def test_a_flow_of_more_bytes_than_any_is_refused(size_bytes):
    flow = messages.FlowDeclaration("f0", 0, "c", "h1", "h2", 4711, 0.0, 10_000, 5001)
    line = messages.encode(messages.Declare("job", "g", "k", 1.0, (flow,))).replace(b"4711", b"%d" % size_bytes)
    with pytest.raises(InputError, match=r"declare\.flows\[0\]\.size_bytes: expected int [<>]= "):
        messages.decode(line)


def test_a_reason_is_shortened_to_a_length_that_is_read():
    assert messages.shortened("short") == "short"
    assert len(messages.shortened("x" * 10**6)) == messages.LONGEST_REASON


@given(st.binary(max_size=200))
def test_random_bytes_never_cause_anything_but_an_input_error(line):
    with contextlib.suppress(InputError):
        messages.decode(line)
