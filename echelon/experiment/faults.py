"""Planned faults of an experiment file: each entry of `faults:` checked against the network and the jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from controller.enforcers import WEIGHTED
from echelon.experiment.specs import FaultSpec
from echelonflow.errors import InputError
from echelonflow.model.dag import Job
from echelonflow.model.faults import (
    ControllerStop,
    Crash,
    Fault,
    LinkDown,
    LinkRate,
    LostMessages,
    Slowdown,
)
from echelonflow.model.network import Network
from echelonflow.model.units import parse_duration_s, parse_rate_bps, parse_share
from echelonflow.spelling import unknown

LONGEST_S = 24 * 3600.0
"""No fault begins later, nor lasts longer."""
MOST_FACTOR = 1000.0

_TAKES = {
    "link-down": ("link",),
    "link-rate": ("link", "rate"),
    "slowdown": ("host", "factor"),
    "crash": ("host",),
    "controller-stop": (),
    "lost-messages": ("host", "share"),
}
"""What an entry of each kind must say beside `at`; all but a crash may say `for`."""
_OWN_KEYS = ("link", "rate", "host", "factor", "share")


def build_fault(spec: FaultSpec, network: Network, jobs: Sequence[Job]) -> Fault:
    """The fault that an entry describes; InputError for what does not fit together or does not exist."""
    _check_keys(spec)
    at_s, for_s = _times(spec)
    match spec.fault:
        case "link-down":
            if for_s is None:
                raise InputError("for: is missing: what waits for a link that stays down never ends (rate, crash)")
            return LinkDown(at_s=at_s, for_s=for_s, ends=_ends(spec, network))
        case "link-rate":
            ends = _ends(spec, network)
            return LinkRate(at_s=at_s, for_s=for_s, ends=ends, share=_rate_share(spec, ends, network))
        case "slowdown":
            factor = spec.factor or 0.0
            if not 1 < factor <= MOST_FACTOR:
                raise InputError(f"factor: is {spec.factor}; it must be above 1, and {MOST_FACTOR:g} at most")
            return Slowdown(at_s=at_s, for_s=for_s, host=_host(spec, jobs), factor=factor)
        case "crash":
            return Crash(at_s=at_s, host=_host(spec, jobs))
        case "controller-stop":
            return ControllerStop(at_s=at_s, for_s=for_s)
        case "lost-messages":
            return LostMessages(at_s=at_s, for_s=for_s, host=_host(spec, jobs), share=_lost_share(spec))


def overlaps(faults: Sequence[Fault]) -> list[str]:
    """In words, the pairs of faults that strike the same thing at the same time, so that nobody could say what holds."""
    found = []
    for j, later in enumerate(faults):
        for i, earlier in enumerate(faults[:j]):
            together = earlier.at_s < later.until_s and later.at_s < earlier.until_s
            if together and _struck(earlier) == _struck(later):
                found.append(
                    f"faults.{j}: overlaps with faults.{i}: {earlier.what}; let one end before the other begins"
                )
    return found


def _struck(fault: Fault) -> object:
    if isinstance(fault, LinkDown | LinkRate):
        return frozenset(fault.ends)
    return type(fault), getattr(fault, "host", "")


def _check_keys(spec: FaultSpec) -> None:
    takes = _TAKES[spec.fault]
    given = [key for key in _OWN_KEYS if getattr(spec, key) is not None]
    missing = [key for key in takes if key not in given]
    beside = [key for key in given if key not in takes]
    if spec.fault == "crash" and spec.for_ is not None:
        beside.append("for")
    may = [*takes, "at", *([] if spec.fault == "crash" else ["for"])]
    if missing or beside:
        words = [*(f"lacks {key}" for key in missing), *(f"does not take {key}" for key in beside)]
        raise InputError(f"{spec.fault} {' and '.join(words)}; it takes {', '.join(may)}")


def _times(spec: FaultSpec) -> tuple[float, float | None]:
    at_s = _named("at", lambda: parse_duration_s(spec.at))
    for_s = None if spec.for_ is None else _named("for", lambda: parse_duration_s(spec.for_))
    if at_s > LONGEST_S:
        raise InputError(f"at: is {spec.at}; a fault begins within {LONGEST_S / 3600:g} h of the run")
    if for_s is not None and not 0 < for_s <= LONGEST_S:
        raise InputError(f"for: is {spec.for_}; it must be more than nothing, and {LONGEST_S / 3600:g} h at most")
    return at_s, for_s


def _named(key: str, parse: Callable[[], float]) -> float:
    try:
        return parse()
    except InputError as error:
        raise InputError(f"{key}: {error}") from None


def _ends(spec: FaultSpec, network: Network) -> tuple[str, str]:
    assert spec.link is not None  # keys are checked
    a, b = spec.link
    for node in (a, b):
        if node not in (*network.hosts, *network.switches):
            raise InputError(f"link: unknown node {node!r}{unknown(node, (*network.hosts, *network.switches))}")
    if not any({cable.a, cable.b} == {a, b} for cable in network.cables):
        others = [cable.b if cable.a == a else cable.a for cable in network.cables if a in (cable.a, cable.b)]
        raise InputError(f"link: no cable joins {a} and {b}; {a} is joined to {', '.join(sorted(set(others)))}")
    return a, b


def _host(spec: FaultSpec, jobs: Sequence[Job]) -> str:
    assert spec.host is not None  # keys are checked
    used = sorted({host for job in jobs for host in job.placement}, key=lambda name: (len(name), name))
    if spec.host not in used:
        raise InputError(f"host: no job has a rank on {spec.host!r}; they are on {', '.join(used)}")
    return spec.host


def _rate_share(spec: FaultSpec, ends: tuple[str, str], network: Network) -> float:
    """The rate as a share of what the cables declare."""
    text = str(spec.rate)
    if text.rstrip().endswith("%"):
        share = _named("rate", lambda: parse_share(text))
    else:
        rate_bps = _named("rate", lambda: parse_rate_bps(text))
        share = rate_bps / min(cable.rate_bps for cable in network.cables if {cable.a, cable.b} == set(ends))
    if not 0 < share < 1:
        raise InputError(f"rate: is {text}; it must be below what the link declares, and above nothing (link-down)")
    return share


def _lost_share(spec: FaultSpec) -> float:
    share = _named("share", lambda: parse_share(spec.share))
    if not 0 < share < 1:
        raise InputError(f"share: is {spec.share}; it must lie between 0 % and 100 % (all lost: controller-stop)")
    return share


def unweighable(chosen: Sequence[str], planned: Sequence[Fault]) -> list[str]:
    """What is wrong with planned faults under these enforcers: the first is the experiment's, `auto` for the others, each a policy's own.

    A link that is slowed down has its classes put in order again, whatever weights they had.
    """
    first, *own = chosen
    weighs = any(text.partition("(")[0].strip() == WEIGHTED for text in (own if first == "auto" else [first]))
    if weighs and any(isinstance(fault, LinkRate) for fault in planned):
        return ["faults: a link whose rate changes does not go with the enforcer weighted; choose priority or rate"]
    return []
