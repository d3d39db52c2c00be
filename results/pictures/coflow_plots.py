"""The distribution of Coflow completion times, one curve per policy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from results.analysis.coflows import TraceRun
from results.pictures import style


def draw_completion(path: Path, runs: Sequence[TraceRun]) -> None:
    """Share of Coflows that completed within a time, on a logarithmic axis, and the slow tail enlarged beside it."""
    with style.picture(path, 3.6) as figure:
        whole, tail = figure.subplots(1, 2)
        for i, run in enumerate(runs):
            times_s = np.sort(run.completion_s)
            share = np.arange(1, times_s.size + 1) / times_s.size
            colour = style.PALETTE[i % len(style.PALETTE)]
            line = ("-", "--", ":", "-.")[i // len(style.PALETTE) % 4]
            whole.step(times_s, share, line, where="post", linewidth=1.5, color=colour, label=run.policy)
            tail.step(times_s, 1 - share + 1 / times_s.size, line, where="pre", linewidth=1.5, color=colour)
        for ax in (whole, tail):
            ax.set_xscale("log")
            ax.set_xlabel("Coflow completion time (s)")
        whole.set_ylim(0, 1)
        whole.set_ylabel("share of Coflows done by then")
        whole.set_title("Simulated completion times")
        tail.set_yscale("log")
        tail.set_ylabel("share of Coflows that take longer")
        tail.set_title("Their tail (simulated)")
        figure.legend(loc="outside lower center", ncols=4)
