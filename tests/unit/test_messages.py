from __future__ import annotations

import contextlib
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelonflow.errors import InputError
from echelonflow.wire import messages

# JSON has neither NaN nor infinity, and `encode` refuses them.
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
EVERY_MESSAGE = st.one_of(*(st.from_type(kind) for kind in typing.get_args(messages.Message)))


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
    ],
)
def test_nonsense_is_named(line, reason):
    with pytest.raises(InputError, match=reason):
        messages.decode(line)


@given(st.binary(max_size=200))
def test_random_bytes_never_cause_anything_but_an_input_error(line):
    with contextlib.suppress(InputError):
        messages.decode(line)
