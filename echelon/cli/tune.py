"""The command that tunes job schedulers: tune."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from echelon.cli import interrupts
from echelon.cli.options import Schedulers
from echelon.cli.saying import say
from echelon.cli.standard_error import StandardError
from echelon.running import ownership, place
from echelonflow.errors import EXIT_INTERRUPTED, EXIT_VALID, InputError
from echelonflow.printable import printable

if TYPE_CHECKING:
    from echelon.tuning.history import Asked, Sample


def tune(
    file: Annotated[
        Path | None, typer.Argument(help="Experiment file (YAML), as for `echelon run`.", show_default=False)
    ] = None,
    job: Annotated[
        list[str] | None,
        typer.Option(help="Tune this job only; repeatable. Default: all whose scheduler can be tuned."),
    ] = None,
    each: Annotated[
        bool,
        typer.Option("--each", help="Options of its own for each job, one job after the other; else the same for all."),
    ] = False,
    scheduler: Schedulers = None,
    policy: Annotated[
        str | None, typer.Option(help="Network policy to tune under (default: the first of the file's).")
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="gp, tpe, random or grid, with options, e.g. 'gp(first=10, xi=0.1)' as ByteScheduler has it."
        ),
    ] = "gp",
    samples: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Points to try, beside the file's options (default: 15).")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of what is by chance in the method.")] = 0,
    space: Annotated[
        list[str] | None,
        typer.Option(
            help="Where to look, e.g. 'partition=256 KB..32 MB,credit=1 MB..64 MB'. Default: from a 400th of the model to "
            "its largest tensor, and to all of it."
        ),
    ] = None,
    backend: Annotated[
        Literal["fluid", "emulation"],
        typer.Option(help="fluid (default): simulation, seconds, no root. emulation: real packets, minutes."),
    ] = "fluid",
    repeats: Annotated[
        int, typer.Option(min=1, help="Runs of every point, with --backend emulation; their median counts.")
    ] = 3,
    verify: Annotated[
        int, typer.Option(min=0, help="At the end, emulate the best options and the file's, so many runs each.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for history and picture (default results/runs/<time>-tune-<name>). One that holds the same "
            "tuning is gone on with."
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on in this folder; all is taken from there. --samples may add some, FILE is left out."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was found as JSON instead of the tables.")
    ] = False,
) -> None:
    """Tune partition and credit of the job schedulers of an experiment: find those with the shortest iterations.

    Each sample is a short run of the experiment with other options. What is minimised is the mean time of the jobs'
    iterations but the first. A partition that is too small costs time for each, one that is too large lets urgent tensors wait. A
    credit that is too small leaves the network idle, one that is too large is no order at all. Where the best lies
    depends on model, architecture and bandwidth, so tune for each. A credit below one partition is never tried.

    Methods: gp is a Gaussian process with expected improvement, xi 0.1, as ByteScheduler has it; tpe is optuna's; random
    and grid are what they have to beat. All begin with the same random points (gp and tpe: 5; ByteScheduler has 10) and are the
    same for a seed. gp and tpe need scikit-learn and optuna: scripts/setup.sh --tune.

    The file's options come first, then the job scheduler is left off (fifo). If nothing beats either, that is said.

    On emulation a sample is the median of --repeats runs; runs that do not count are made again. What is measured first
    is thrown away, as ByteScheduler does. Options are compared by what packets took. So a run counts even if that is not what
    the measured causes explain; by how much it is off is shown. On the simulator nothing is by chance, so one run will do.

    Ctrl-C loses the sample under way and no other: the same command with the same --out goes on, and so does --resume.
    The table shows every sample, the best options, and what they gain on the file's. history.png shows the path.
    """
    from echelon.experiment import schema
    from echelon.tuning import beginning

    _check_arguments(file, out, resume, {"--job": job, "--scheduler": scheduler, "--policy": policy, "--space": space})
    folder = resume or out
    if backend == "fluid" and not verify and resume is None:
        ownership.stop_being_root(folder or place.RUNS)
    with interrupts.in_order():
        if resume is not None:
            asked = beginning.resumed(resume, samples)
        else:
            assert file is not None
            wishes = beginning.Wishes(
                tuple(job or ()), each, policy, method, samples or beginning.Wishes.samples, seed, tuple(space or ()),
                backend, repeats,
            )  # fmt: skip
            changes = {"policies": [policy], "against": None} if policy else None
            asked = beginning.asked(schema.load(file, changes, scheduler or ()), wishes)
        name = f"tune-{asked.experiment['name']}"
        with (
            ownership.to_caller(folder or place.RUNS),
            place.reserved(folder, name) as root,
            ownership.to_caller(root),
            place.opened(root, again=True),
        ):
            code = _carry_out(beginning.opened(root, asked), root, verify, as_json=as_json)
    raise typer.Exit(code)


def _check_arguments(file: Path | None, out: Path | None, resume: Path | None, others: dict[str, Any]) -> None:
    if resume is None:
        if file is None:
            raise InputError("no experiment file is given; name one, or a folder to go on in by --resume")
        return
    given = [name for name, value in {"FILE": file, "--out": out, **others}.items() if value]
    if given:
        raise InputError(f"--resume takes everything from its folder; leave {', '.join(given)} away")
    if not resume.is_dir():
        raise InputError(f"--resume {resume}: there is no such folder; begin a tuning without --resume")


def _carry_out(asked: Asked, root: Path, verify: int, *, as_json: bool) -> int:
    from echelon.tuning import showing, verifying
    from echelon.tuning.history import History
    from echelon.tuning.trials import TrialsOf
    from echelon.tuning.tuning import Tuner

    with _shown(asked) as (hear, report):
        tuner = Tuner(asked, History(root), TrialsOf(asked, root, report), hear)
        try:
            found = tuner.tune()
            verified = verifying.verify(tuner, found, verify) if verify else None
        except KeyboardInterrupt:
            taken = sum(sample.role == "sample" for sample in tuner.history.samples)
            say(f"echelon: interrupted; {taken} samples are kept. Go on with: echelon tune --resume {root}", err=True)
            return EXIT_INTERRUPTED
        picture = showing.draw(root, asked, found)
    if as_json:
        typer.echo(json.dumps({"folder": str(root), **showing.to_json(asked, found, verified)}))
    else:
        say(showing.told(asked, found, verified))
        say(f"\npicture: {picture}")
    return EXIT_VALID


@contextlib.contextmanager
def _shown(asked: Asked) -> Iterator[tuple[Any, Any]]:
    """What to call with what is tried and with what came of it, and with how emulated runs go on."""
    from echelonflow.records.progress import RunFailed, Running, Warned

    console = StandardError()
    name = str(asked.experiment["name"])
    best_s: float | None = None
    with console.status(printable(name)) as status:
        now = ""

        def line(words: str) -> None:
            with contextlib.suppress(OSError):  # nobody reads it any more, and the tuning goes on
                console.print(printable(f"{name}: {words}"), highlight=False, markup=False, soft_wrap=True)

        def hear(words: str, sample: Sample | None) -> None:
            nonlocal best_s, now
            if sample is None:
                now = words
                status.update(
                    printable(f"{name}: {words}" + ("" if best_s is None else f" (best so far {best_s:.3f} s)"))
                )
                return
            if sample.value_s is None:
                line(f"{now}: nothing that counts: {sample.why}")
                return
            line(f"{now}: {sample.value_s:.3f} s")
            if sample.role != "warm-up":
                best_s = sample.value_s if best_s is None else min(best_s, sample.value_s)

        def report(progress: Any) -> None:
            if isinstance(progress, Running):
                status.update(printable(f"{name}: {now}, run {progress.run + 1} of {progress.of}"))
            elif isinstance(progress, RunFailed | Warned):
                line(progress.reason)

        yield hear, report


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(tune)
