"""What a tuning found, in lines of text and in a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from echelon.tuning.history import Asked, Sample
from echelon.tuning.trials import OFF, with_options
from echelon.tuning.tuning import Best
from echelon.tuning.verifying import Verified, winners
from echelonflow.model.units import format_size
from echelonflow.printable import printable
from echelonflow.tables import text_table
from results.report.printed_column import MISSING, format_estimate, format_seconds, format_share

PICTURE = "history.png"


def told(asked: Asked, found: Sequence[Best], verified: Sequence[Verified] | None) -> str:
    """All that a reader wants of it: the path of each target, what was best, what it brings, and what to write."""
    source = (
        "simulated (fluid)"
        if asked.backend == "fluid"
        else f"emulated, medians over {asked.repeats} run{'s' * (asked.repeats != 1)}"
    )
    lines = [f"{_of(asked)}: {asked.samples} samples by {printable(asked.method)}, seed {asked.seed}, {source}"]
    for best in found:
        lines += ["", f"path taken for {', '.join(map(printable, best.jobs))}:", _path(best)]
    lines += ["", _results(asked, found), "seconds: mean time of the iterations but the first; left off: with fifo instead; gain: how much longer the file's options take"]  # fmt: skip
    if asked.backend == "emulation":
        lines += ["unexplained: what no measured cause explains of an iteration; options are compared by what packets took all the same"]  # fmt: skip
    if verified:
        head = ["verified", "options of the file", "best", "speed-up"]
        rows = [
            [each.job, format_estimate(each.default_s), format_estimate(each.best_s), format_estimate(each.speed_up)]
            for each in verified
        ]
        lines += ["", text_table(head, rows), "seconds on packets, medians over turns [95 % interval]"]
    elif verified is not None:
        lines += ["", "nothing is verified: no options were better than those of the file"]
    lines += ["", *_to_write(asked, found)]
    return "\n".join(lines)


def _of(asked: Asked) -> str:
    return f"{printable(str(asked.experiment['name']))} under {printable(asked.policy)}"


def _path(best: Best) -> str:
    least_s, rows = best.default.value_s, []
    on_packets = any(sample.unexplained is not None for sample in best.samples)
    for sample in best.samples:
        assert sample.point is not None
        better = sample.value_s is not None and (least_s is None or sample.value_s < least_s)
        least_s = sample.value_s if better else least_s
        rows.append(
            [
                str(sample.number + 1),
                format_size(sample.point.partition_bytes),
                format_size(sample.point.credit_bytes),
                format_seconds(sample.value_s),
                format_share(_less(sample, best.default)),
                *([format_share(sample.unexplained)] if on_packets else []),
                "better" if better else "" if sample.why is None else "no run counts (above, and in history.jsonl)",
            ]
        )
    head = ["sample", "partition", "credit", "iteration", "to file's", *(["unexplained"] if on_packets else []), ""]
    return text_table(head, rows, align="r" * (len(head) - 1) + "l")


def _less(sample: Sample, default: Sample) -> float | None:
    if sample.value_s is None or default.value_s is None:
        return None
    return sample.value_s / default.value_s - 1


def _results(asked: Asked, found: Sequence[Best]) -> str:
    rows = []
    for best in found:
        point = best.best.point
        rows.append(
            [
                ", ".join(best.jobs),
                format_seconds(best.default.value_s),
                format_seconds(best.off.value_s),
                format_seconds(best.best.value_s),
                format_share(best.gain),
                MISSING if point is None else format_size(point.partition_bytes),
                MISSING if point is None else format_size(point.credit_bytes),
                f"{sum(sample.value_s is not None for sample in best.samples)}/{asked.samples}",
            ]
        )
    return text_table(["tuned", "file's", "left off", "best", "gain", "partition", "credit", "counted"], rows)


def _to_write(asked: Asked, found: Sequence[Best]) -> Iterator[str]:
    for job, text in schedulers(asked, found).items():
        yield f"in the file, for {printable(job)}:  scheduler: {printable(text)}"
    for best in found:
        jobs = ", ".join(map(printable, best.jobs))
        if best.best.role == "default":
            yield f"for {jobs} nothing was better than what the file says"
        elif best.best.role == "off":
            yield f"for {jobs} nothing was better than leaving the job scheduler off"


def schedulers(asked: Asked, found: Sequence[Best]) -> dict[str, str]:
    """By job, the scheduler with the best options, as an experiment file has it; jobs whose file is best are left out."""
    best = winners(found)
    texts = {job["name"]: job.get("scheduler") for job in asked.experiment["jobs"]}
    return {job: OFF if point is None else with_options(texts[job], point) for job, point in best.items()}


def to_json(asked: Asked, found: Sequence[Best], verified: Sequence[Verified] | None) -> dict[str, Any]:
    """The same for programs."""
    from echelonflow.codec import builtins

    targets = [
        {
            "jobs": list(best.jobs),
            "default_s": best.default.value_s,
            "off_s": best.off.value_s,
            "best_s": best.best.value_s,
            "gain": best.gain,
            "best": builtins(best.best.point),
            "path": [
                {**builtins(sample.point), "value_s": sample.value_s, "unexplained": sample.unexplained}
                for sample in best.samples
            ],
        }
        for best in found
    ]
    return {
        "experiment": asked.experiment["name"],
        "policy": asked.policy,
        "method": asked.method,
        "seed": asked.seed,
        "backend": asked.backend,
        "targets": targets,
        "schedulers": schedulers(asked, found),
        "verified": builtins(verified),
    }


def draw(folder: Path, asked: Asked, found: Sequence[Best]) -> Path:
    """The picture of the path of each target, in `folder`."""
    from results.pictures.tuning_plots import Tried, TuningPath, draw_tuning

    simulated = " (simulated)" if asked.backend == "fluid" else ""
    paths = [
        TuningPath(
            f"{', '.join(best.jobs)} by {asked.method}{simulated}",
            best.default.value_s or 0.0,
            best.off.value_s,
            [
                Tried(sample.point.partition_bytes, sample.point.credit_bytes, sample.value_s)
                for sample in best.samples
                if sample.point is not None
            ],
        )
        for best in found
    ]
    draw_tuning(folder / PICTURE, paths, asked.space.partition_bytes, asked.space.credit_bytes)
    return folder / PICTURE
