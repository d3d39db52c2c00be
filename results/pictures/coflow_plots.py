"""The distribution of Coflow completion times, one curve per policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from results.analysis.coflows import TraceRun
from results.colours import looks
from results.pictures import style


def draw_completion(
    path: Path, runs: Sequence[TraceRun], *, whole: bool = True, page: style.Page = style.SCREEN
) -> None:
    """Share of Coflows that completed within a time, on a logarithmic axis, and the slow tail enlarged beside it.

    Unless the `whole` is to be drawn, curves have no more steps than can be seen.
    """
    with style.picture(path, page.inches(3.6) * (1.7 if page.narrow else 1), page=page) as figure:
        body, tail = figure.subplots(*((2, 1) if page.narrow else (1, 2)))
        look_of = looks([run.policy for run in runs])
        for run in runs:
            times_s, share = style.distribution(run.completion_s, whole=whole)
            colour, line = look_of[run.policy].colour, look_of[run.policy].line
            body.step(times_s, share, where="post", linewidth=1.5, color=colour, linestyle=line, label=run.policy)
            longer = 1 - share + 1 / run.completion_s.size
            tail.step(times_s, longer, where="pre", linewidth=1.5, color=colour, linestyle=line)
        for ax in (body, tail):
            ax.set_xscale("log")
            ax.set_xlabel("Coflow completion time (s)")
        body.set_ylim(0, 1)
        body.set_ylabel("share of Coflows done by then")
        body.set_title("Simulated completion times")
        tail.set_yscale("log")
        tail.set_ylabel("share of Coflows that take longer")
        tail.set_title("Their tail (simulated)")
        figure.legend(loc="outside lower center", ncols=page.columns(4))
