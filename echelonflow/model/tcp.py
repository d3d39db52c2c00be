"""What may be asked of hosts' TCP."""

from __future__ import annotations

import re

from echelonflow.errors import InputError

_NAME = re.compile(r"[a-z0-9_-]{1,15}")  # as kernel modules name theirs, in TCP_CA_NAME_MAX bytes


def congestion_control(name: str) -> str:
    """`name`, if a congestion control can be called so (InputError).

    It comes from experiment files and reaches a shell that root runs, so that it may hold nothing but a name.
    """
    if not _NAME.fullmatch(name):
        raise InputError(f"{name!r} is not the name of a congestion control, such as cubic, reno or bbr")
    return name
