"""Where tuners look: every pair of numbers is a point that keeps the constraint, and what is no space is refused."""

from __future__ import annotations

import random

import pytest

from echelon.tuning.space import Point, Space, parse_space, size_text
from echelonflow.errors import InputError
from echelonflow.model.units import parse_size_bytes

USUAL = Space((256_000, 32_000_000), (1_000_000, 64_000_000))


def test_every_place_is_a_point_of_the_space_whose_credit_holds_a_partition():
    draw = random.Random(1)
    for _ in range(1000):
        point = USUAL.any_point(draw)
        assert 256_000 <= point.partition_bytes <= 32_000_000
        assert max(1_000_000, point.partition_bytes) <= point.credit_bytes <= 64_000_000


def test_the_corners_are_reached():
    assert USUAL.point(0, 0) == Point(256_000, 1_000_000)
    assert USUAL.point(1, 0) == Point(32_000_000, 32_000_000)
    assert USUAL.point(1, 1) == Point(32_000_000, 64_000_000)
    assert USUAL.coordinates(USUAL.point(1, 1)) == (1, 1)
    assert USUAL.coordinates(USUAL.point(0, 0)) == (0, 0)


def test_partitions_go_no_further_than_the_largest_credit():
    space = Space((1_000_000, 32_000_000), (500_000, 4_000_000))
    assert space.point(1, 0.5) == Point(4_000_000, 4_000_000)


def test_a_place_is_found_again():
    draw = random.Random(2)
    for _ in range(200):
        across, up = draw.random(), draw.random()
        assert USUAL.place(USUAL.point(across, up)) == pytest.approx((across, up), abs=0.05)


def test_sizes_are_read_back_to_the_byte():
    draw = random.Random(3)
    for _ in range(500):
        point = USUAL.any_point(draw)
        assert [parse_size_bytes(text) for text in point.options().values()] == [
            point.partition_bytes,
            point.credit_bytes,
        ]
    assert size_text(262_144) == "262.144 kB"
    assert size_text(4_190_000) == "4.19 MB"
    assert size_text(1_234_567) == "1234.567 kB"
    assert size_text(12) == "12 B"
    assert size_text(7) == "7 B"


def test_a_space_is_read_as_people_write_it():
    assert parse_space(["partition=256 KB..32 MB,credit=1 MB..64 MB"], lambda: USUAL) == USUAL
    assert parse_space(["partition=1 MB..2 MB"], lambda: USUAL) == Space((1_000_000, 2_000_000), USUAL.credit_bytes)
    assert parse_space(["credit=4 MB..4 MB"], lambda: USUAL).credit_bytes == (4_000_000, 4_000_000)
    assert parse_space([], lambda: USUAL) == USUAL
    assert parse_space([str(USUAL)], lambda: USUAL) == USUAL


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("partition=32 MB..1 MB", "--space: partition: begins at 32 MB and ends at 1 MB.*smaller size first"),
        ("partition=8 MB..9 MB,credit=1 MB..2 MB", "has no point: the smallest partition .8 MB. is larger than"),
        ("partition=4 MB..4 MB,credit=8 MB..8 MB", "has one point alone .*widen a range"),
        ("partition=0 B..4 MB", "begins at 0 B; begin at 1 B at least"),
        ("partition=4 MB", "'4 MB' is not a range; write such as partition="),
        ("partition=4..8 MB", "partition: '4' is not a size"),
        ("parttion=1 MB..8 MB", "no option 'parttion' to tune; did you mean 'partition'"),
        ("partition", "must be written key=value"),
        ("credit=1 MB..2 MB,credit=1 MB..2 MB", "given twice"),
    ],
)
def test_what_is_no_space_is_refused_in_one_line(text, words):
    with pytest.raises(InputError, match=words) as refused:
        parse_space([text], lambda: USUAL)
    assert "\n" not in str(refused.value)
