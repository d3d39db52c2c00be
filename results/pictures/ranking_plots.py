"""Picture of a ranking: what policies bring on packets, over what they bring in fluid simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from results import colours
from results.pictures import style


def draw_both(
    path: Path,
    times: Mapping[str, Mapping[str, tuple[float, float]]],
    basis: str,
    policies: Sequence[str],
    apart: float,
) -> None:
    """A point for each experiment and policy: iteration time over that of `basis`, on packets (up) and in fluid (to the right).

    `times` has, by experiment and policy, both in seconds. Points between the dashed lines are off by `apart` at most.
    """
    with style.picture(path, 4.6, 6.4) as figure:
        axes = figure.subplots()
        found: list[float] = []
        for i, policy in enumerate(name for name in policies if name != basis):
            both = [each for each in times.values() if policy in each and basis in each]
            fluid = [each[policy][1] / each[basis][1] for each in both]
            on_packets = [each[policy][0] / each[basis][0] for each in both]
            found += [*fluid, *on_packets]
            colour, marker = style.PALETTE[i % len(style.PALETTE)], style.MARKERS[i % len(style.MARKERS)]
            axes.scatter(fluid, on_packets, s=22, color=colour, marker=marker, label=policy, zorder=3)
        ends = [min([*found, 1.0]) * 0.97, max([*found, 1.0]) * 1.03]
        axes.plot(ends, ends, color=colours.GREY, linewidth=0.8)
        for share in (1 - apart, 1 + apart):
            axes.plot(ends, [end * share for end in ends], "--", color=colours.GREY, linewidth=0.8)
        axes.set_xlabel(f"iteration time over {basis}, in fluid simulation")
        axes.set_ylabel(f"iteration time over {basis}, on packets")
        figure.legend(loc="outside lower center", ncols=2)
