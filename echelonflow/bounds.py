"""How much may be asked for: the bounds on whatever a few words in a file can make large.

They are held before anything is made. They are generous: what a simulation can carry stays far within them.
Emulated networks have tighter ones, because every host is a group of processes on one machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from echelonflow.errors import InputError

LEAST_HOSTS = 2
MOST_HOSTS = 10_000
MOST_SWITCHES = 10_000
MOST_CABLES = 50_000
MOST_GPUS_PER_HOST = 1_000
MOST_RANKS = 10_000
"""Of one job."""
MOST_LAYERS = 10_000
"""Of one model, or stages of a pipeline with all their parts."""
MOST_STEPS = 300_000
"""Computations and flows in one iteration of all jobs together: fsdp of 48 layers on 1,000 ranks has 240,000."""
MOST_WAITS = 10_000_000
"""Dependencies between them: a flow of an all-reduce that goes directly waits for two flows of every rank."""
MOST_RUN_STEPS = 20_000_000
"""The same over all iterations: a simulation keeps a record of each."""
MOST_CUTS = 10_000_000
"""Tried in order to balance the stages of a pipeline: 64 stages of 500 layers need 8 million."""
MOST_ITERATIONS = 1_000_000
MOST_COUNT = 1_000_000
"""Of whatever an option counts."""
MOST_REPEATS = 10_000
MOST_NAME = 100
"""Characters of a name, which becomes that of a folder."""
LEAST_MTU_BYTES, MOST_MTU_BYTES = 68, 65_535
"""IPv4 has no smaller one (RFC 791), and no larger packet."""
LEAST_RATE_BPS, MOST_RATE_BPS = 1.0, 1e15
MOST_BYTES = 1 << 63
"""No transfer has so many: formats that others read write sizes in 64 bits."""
MOST_S = 1e9
"""Of any time: some thirty years."""
LEAST_FACTOR, MOST_FACTOR = 1e-6, 1e6
"""Of similarity scaling."""

MOST_EMULATED_HOSTS = 500
MOST_EMULATED_STEPS = 50_000
"""In one iteration: agents read all of them from their plan."""


class BeyondBoundsError(InputError):
    """More is asked for than one of the bounds of this module allows."""


def check_most(what: str, asked: int, most: int, options: Mapping[str, int]) -> None:
    """BeyondBoundsError if `asked` exceeds `most`; `what` is counted, `options` (name to number) led there.

    The message begins with the option that is largest, so that it is the one that is shown to be at fault.
    """
    if asked > most:
        raise BeyondBoundsError(f"{leading(options)}{asked:,} {what} are asked for; the bound is {most:,}")


def leading(options: Mapping[str, int]) -> str:
    """The beginning of a message that names the options that led to a number, the largest first; empty without any."""
    if not options:
        return ""
    first, *others = sorted(options, key=lambda name: -options[name])
    beside = ", ".join(f"{name} {options[name]:,}" for name in others)
    return f"{first}: {options[first]:,}" + (f" (with {beside})" if beside else "") + " is too many: "


def check_network(options: Mapping[str, int], *, hosts: int, switches: int, cables: int) -> None:
    """InputError unless a network of so many hosts, switches and cables can be made; `options` led there.

    Without options it is no topology that a user asked for: a controller learns its network host by host.
    """
    check_most("hosts", hosts, MOST_HOSTS, options)
    check_most("switches", switches, MOST_SWITCHES, options)
    check_most("cables", cables, MOST_CABLES, options)
    if options and hosts < LEAST_HOSTS:
        first = next(iter(options))
        raise InputError(
            f"{first}: {hosts} is too few: a host needs another one to send to; the bound is {LEAST_HOSTS}"
        )
