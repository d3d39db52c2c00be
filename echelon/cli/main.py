"""The command `echelon`."""

from __future__ import annotations

import contextlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from echelon.cli import bound, check, compare, controller, convert, live, machine, replay, run, sweep, tune
from echelon.cli.options import DrawnPictures
from echelon.cli.saying import say
from echelon.cli.usage import usage_fault
from echelon.running import ownership
from echelonflow.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_INTERRUPTED, EchelonError, InputError
from echelonflow.files import refusal

if TYPE_CHECKING:
    from results.analysis.shown import Pictures
    from results.pictures.places import Figures

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Emulate and simulate distributed training on a shared network under swappable flow schedulers.\n\n"
    "Exit codes: 0 valid, 1 failed (the experiment, or one of its runs), 2 bad input, 3 finished but invalid (the emulation "
    "broke its own limits), 130 interrupted.",
)


def _print_versions(wanted: bool) -> None:
    if not wanted:
        return
    from echelon.running.manifest import git_revision, versions

    print(f"echelon {importlib.metadata.version('echelon-testbed')}, revision {git_revision() or 'unknown'}")
    for name, version in versions().items():
        print(f"{name} {version}")
    raise typer.Exit


_NEED_NO_ROOT = frozenset({"bound", "check", "study", "convert", "replay", "policies", "schedulers", "profile"})
"""Commands that nobody has to be root for: under sudo they run as the user who called it."""


@app.callback()
def main_options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_versions, is_eager=True, help="Show versions and exit."),
    ] = False,
) -> None:
    """What holds for every command."""
    if context.invoked_subcommand in _NEED_NO_ROOT:
        ownership.stop_being_root()


run.register(app)
check.register(app)
sweep.register(app)
compare.register(app)
tune.register(app)
machine.register(app)
controller.register(app)
bound.register(app)
convert.register(app)
replay.register(app)
live.register(app)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of an earlier run, or of a sweep.")],
    pictures: DrawnPictures = "few",
    figures: Annotated[
        Literal["screen", "paper"],
        typer.Option(help="paper: also draw all pictures for one column of a paper, as SVG and PNG in figures/paper/."),
    ] = "screen",
) -> None:
    """Analyse a run's raw records again: tables, pictures, report.html. Of a sweep's folder, the same of its cells.

    Nothing is run; what was captured is read anew. Exit code as for the run itself, or for the sweep: 1 where a cell
    failed or has not been made, 3 where one is invalid.
    """
    from echelonflow.files import exists
    from echelonflow.records.sweeps import SWEEP

    ownership.become_owner(folder)
    with ownership.to_caller(folder):
        code = (_report_sweep if exists(folder / SWEEP) else _report_run)(folder, pictures, figures)
    raise typer.Exit(code)


def _report_run(folder: Path, pictures: Pictures, figures: Figures) -> int:
    from echelon.running.runner import exit_code
    from results.folder import analyse
    from results.report.table import summary_table

    summary = analyse(folder, pictures=pictures, figures=figures)
    say(summary_table(summary, blame=True))
    say(f"\nreport: {folder / 'report.html'}")
    return exit_code(folder, summary)


def _report_sweep(folder: Path, pictures: Pictures, figures: Figures) -> int:
    from echelon.sweeps.carrying import state_of, write_tables
    from echelon.sweeps.reporting import draw_sweep, report_sweep

    state = state_of(folder)
    drawn = draw_sweep(folder, pictures, figures)
    page = report_sweep(folder, charts=pictures != "none")
    write_tables(state, folder)
    missing = state.total - state.done
    damaged = f"{state.damaged} damaged, " if state.damaged else ""
    say(
        f"{state.total} cells: {missing - state.damaged} not made yet, {damaged}{state.failed} failed, {state.invalid} invalid"
    )
    say(f"report: {page}")
    for path in drawn:
        say(f"picture: {path}")
    if pictures != "none" and not drawn:
        say("no pictures: no cell that counts has a number to be drawn")
    if missing or state.failed:
        say(f"go on with what is missing, damaged or failed: echelon sweep --resume {folder}")
    return state.exit_code()


@app.command()
def policies() -> None:
    """List the scheduling policies and their options."""
    from echelonflow.scheduling import policies as roster

    for name in roster.names():
        policy = roster.load(name)
        say(f"{name:14} {policy.summary} [enforced by {policy.enforcer}]")
        for option, values in roster.options_of(name).items():
            say(f"{'':14}   {option}={values}")


@app.command()
def schedulers() -> None:
    """List the job schedulers and their options: which of a job's own tensors goes to the network next.

    A job has one by `scheduler: bytescheduler(partition=4 MB)` in its entry, or by --scheduler. docs/schedulers.md
    says what each does. What they release to the network is the policies' to order.
    """
    from echelon.documents.modules import default_in_words
    from traffic.workloads import job_schedulers as roster

    for name in roster.names():
        found = roster.load(name)
        say(f"{name:14} {found.summary} [{roster.architectures_in_words(found.architectures)}]")
        for option in roster.options(name):
            say(f"{'':14}   {option.key}={option.in_words()} ({default_in_words(option)})")


@app.command()
def profile(
    model: Annotated[str, typer.Argument(help="Model to measure, e.g. gpt2; or with --show a profile to print.")],
    device: Annotated[Literal["cpu", "cuda"], typer.Option(help="Where to run it.")] = "cpu",
    batch: Annotated[int, typer.Option(min=1, help="Samples per micro-batch.")] = 1,
    seq: Annotated[int | None, typer.Option(min=1, help="Tokens per sample (language models).")] = None,
    image: Annotated[int | None, typer.Option(min=1, help="Pixels per side of a sample (image models).")] = None,
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"], typer.Option(help="Of parameters, gradients and activations.")
    ] = "float32",
    repeats: Annotated[int, typer.Option(min=1, help="Training steps that are measured.")] = 20,
    warmup: Annotated[int, typer.Option(min=0, help="Training steps before those.")] = 5,
    whole: Annotated[bool, typer.Option("--whole", help="Build all layers, alike or not; needs more memory.")] = False,
    out: Annotated[Path | None, typer.Option(help="File to write (default: <model>-<device>.json here).")] = None,
    show: Annotated[bool, typer.Option("--show", help="Print a profile (file or committed name) as a table.")] = False,
) -> None:
    """Measure a model's layers: forward, backward and update time; parameter, gradient and activation bytes.

    Weights are random and nothing is downloaded. Layers that are alike are measured once. Steps during which other
    processes used the CPUs are measured again. Needs PyTorch and transformers: scripts/setup.sh --profile.
    """
    from echelon.experiment.jobs import find_profile
    from traffic.workloads import profile as profiles

    if show:
        say(profiles.show(profiles.read(find_profile(model))))
        return
    from traffic.workloads.profiler import DISTURBED_SHARE, measure

    target = out or Path(f"{model}-{device}.json")
    if not target.parent.is_dir():  # found out now, not after minutes of measuring
        raise InputError(f"--out {target}: there is no folder {target.parent}; make it first")
    found = measure(
        model,
        device=device,
        batch=batch,
        seq=seq,
        image=image,
        dtype=dtype,
        repeats=repeats,
        warmup=warmup,
        whole=whole,
    )
    profiles.write(target, found)
    say(profiles.show(found))
    say(f"\nwritten: {target}")
    share = found.provenance.others_share
    if share is not None and share > DISTURBED_SHARE:
        say(
            f"others took up to {share:.0%} of the CPUs in every try, so times are too long; "
            "measure again on a machine that is left alone",
            err=True,
        )


@app.command()
def bench(
    names: Annotated[list[str] | None, typer.Argument(help="Benchmarks to run (default: all that can run).")] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each figure; medians are shown.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Part of a benchmark, by name, e.g. 'gpipe*' of paradigms. Repeatable.")
    ] = None,
    emulated: Annotated[
        bool, typer.Option("--emulated", help="Also the part of a benchmark that is run on packets (job-schedulers).")
    ] = False,
) -> None:
    """Measure the testbed itself against the figures it has to reach.

    Emulation benchmarks need what `echelon run` needs, and a machine with nothing else to do.
    """
    from echelon.benchmarks import run_benchmarks

    raise typer.Exit(run_benchmarks(names or [], repeat, out, Console(), only or [], emulated=emulated))


def main() -> None:
    """Entry point: errors meant for the user are printed in one message, without a traceback."""
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()  # a disk that is full, or a pipe that nobody reads, is found out here and not at the very end
    except EchelonError as error:
        _complain(str(error))
        code = error.exit_code
    except KeyboardInterrupt:
        _complain("interrupted")
        code = EXIT_INTERRUPTED
    except BrokenPipeError:  # whoever read what is printed has enough, such as `head`
        sys.stdout = None
        code = EXIT_FAILED
    except OSError as error:
        _complain(refusal(error))
        code = EXIT_FAILED
    except subprocess.CalledProcessError as error:
        _complain(_failed_program(error))
        code = EXIT_FAILED
    except MemoryError:
        _complain("there is not enough memory for this; end other programs, or make the experiment smaller")
        code = EXIT_FAILED
    except Exception as error:
        if not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        _complain_of_usage(error)
        code = EXIT_BAD_INPUT
    sys.exit(code)


def _failed_program(error: subprocess.CalledProcessError) -> str:
    """One line of a program that the testbed started and could not do without."""
    how = f"was killed (signal {-error.returncode})" if error.returncode < 0 else f"ended with {error.returncode}"
    name = error.cmd if isinstance(error.cmd, str) else error.cmd[0]
    told = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else error.stderr or ""
    last = told.strip().splitlines()[-1:]
    return ": ".join([f"the program {name} {how}", *last]) + "; `echelon doctor` says what this machine lacks"


def _complain(words: str) -> None:
    with contextlib.suppress(OSError):  # of a terminal that has gone
        say(f"echelon: {words}", err=True)


def _complain_of_usage(error: Exception) -> None:
    with contextlib.suppress(OSError):
        say(usage_fault(error, sys.argv[1:]), err=True)
