"""Cells on other machines, through a dask.distributed scheduler.

What goes over the network is the sweep as data, names of cells, and what came of them; workers have this project
installed themselves. Each finds out whether it would compute the very same: a cell's name follows from the experiment, the
files that it names and the code. The main process keeps all cells, so that one that is made twice is kept once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import pickle
import socket
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from echelon.sweeps.fluid import Computer, Wanted
from echelon.sweeps.plan import Names, Sweep
from echelonflow.errors import InputError, RunError
from echelonflow.records.cells import RUN, Cell, keep_cell
from echelonflow.records.progress import Report, Warned

RESOURCE = "emulation"
"""What workers declare that can emulate: one for each kernel, as emulations on one kernel disturb each other."""
_CONNECT_S = 10.0
_WORKERS_S = 15.0
_LOOK_S = 1.0
_TASKS_AHEAD = 3
"""Cells for each thread of the cluster that are under way or wait there. Each is a task of its own: a worker that dies costs the
one that it was at. With some that wait, no thread waits for the network."""
_NEEDED = (
    "echelon",
    "echelonflow",
    "simulator",
    "traffic",
    "results",
    "numpy",
    "scipy",
    "msgspec",
    "pydantic",
    "ruamel.yaml",
)
_INSTALL = "scripts/setup.sh --fluid --sweep there, or pip install '.[sweep]'"

Packed = dict[str, bytes]
Made = tuple[Cell, Packed]
"""A cell, with the files of its run folder (none of a simulated one)."""


class OtherCodeError(Exception):
    """A worker would compute something else than is asked for."""


@contextlib.contextmanager
def connected(address: str, sweep: Sweep) -> Iterator[Any]:
    """A client of the scheduler at `address`, whose workers can make cells of `sweep`.

    InputError where nobody answers, dask.distributed is not installed, no worker comes, one lacks packages or would compute
    something else, or none can emulate where that is asked for.
    """
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "--cluster takes dask.distributed, which is not installed: scripts/setup.sh --sweep, or pip install distributed"
        ) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong is said in our words
    try:
        client: Any = Client(address, timeout=_CONNECT_S, set_as_default=False, name="echelon-sweep")
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(
            f"--cluster {address}: no dask scheduler answers there ({reason}); start one by `dask scheduler`, and give the "
            "address that it says, such as tcp://10.0.0.1:8786"
        ) from None
    try:
        _check_workers(client, address, sweep)
        yield client
    finally:
        with contextlib.suppress(Exception):  # a scheduler that has gone
            client.close(timeout=2)


def _check_workers(client: Any, address: str, sweep: Sweep) -> None:
    try:
        client.wait_for_workers(1, timeout=_WORKERS_S)
    except TimeoutError:
        raise InputError(
            f"--cluster {address}: no worker has come; start some by `dask worker {address} --nthreads 1`"
        ) from None
    names = repr(_NEEDED)
    missing = (
        f"[name for name in {names} if __import__('importlib.util').util.find_spec(name.partition('.')[0]) is None]"
    )
    for worker, lacks in client.run(eval, missing).items():
        if lacks:
            raise InputError(
                f"--cluster {address}: the worker {worker} lacks {', '.join(lacks)}; install them: {_INSTALL}"
            )
    try:
        own = Names(sweep).code
        for worker, code in client.run(_code, _sent(sweep)).items():
            if code != own:
                raise InputError(_other_code(f"{address}: the worker {worker}"))
    except (ImportError, AttributeError) as error:
        raise InputError(
            f"--cluster {address}: a worker cannot load this project ({error}); install it: {_INSTALL}"
        ) from None
    if sweep.backend == "emulation" and not _emulating(client):
        raise InputError(
            f"--cluster {address}: no worker declares the resource {RESOURCE}; start one, as root, on each machine that can "
            f"emulate: dask worker {address} --nthreads 1 --resources {RESOURCE}=1"
        )


def _other_code(who: str) -> str:
    return f"--cluster {who} has other code or files than this machine, and would compute something else; bring it to the same revision"


def _emulating(client: Any) -> list[str]:
    """Addresses of the workers that declare the resource."""
    try:
        info = client.scheduler_info(n_workers=-1)
    except TypeError:  # before 2025, which tells of all of them
        info = client.scheduler_info()
    return [worker for worker, facts in info["workers"].items() if facts.get("resources", {}).get(RESOURCE, 0) >= 1]


def on_cluster(
    client: Any, sweep: Sweep, wanted: Sequence[Wanted], cells: Path, report: Report
) -> Iterator[list[Cell]]:
    """Make every cell of `wanted` there and keep it here; what has ended since the last time, about once a second at least.

    A cell whose worker dies goes to another one; it has failed when dask gives it up. Raises InputError for a worker that would
    compute something else, and RunError where the scheduler has gone.
    """
    return _Tasks(client, sweep, cells, report).run(wanted)


class _Tasks:
    """The tasks of one sweep on a cluster."""

    def __init__(self, client: Any, sweep: Sweep, cells: Path, report: Report) -> None:
        self._client = client
        self._sweep = sweep
        self._sent = _sent(sweep)
        self._cells = cells
        self._report = report
        self._told_alone = False
        self._emulated = sweep.backend == "emulation"

    def run(self, wanted: Sequence[Wanted]) -> Iterator[list[Cell]]:
        from distributed import wait

        todo, running = deque(wanted), dict[Any, Wanted]()
        threads, looked_s = 0, -math.inf
        try:
            while todo or running:
                if time.monotonic() >= looked_s + _LOOK_S:
                    threads, looked_s = self._threads(), time.monotonic()
                for _ in range(min(len(todo), _TASKS_AHEAD * max(threads, 1) - len(running))):
                    one = todo.popleft()
                    running[self._submitted(one)] = one
                with contextlib.suppress(TimeoutError), self._client.as_current():
                    wait(list(running), timeout=_LOOK_S, return_when="FIRST_COMPLETED")
                over = {future: running.pop(future) for future in list(running) if future.status != "pending"}
                yield list(self._fetched(over, todo))
        finally:
            if running:
                with contextlib.suppress(Exception):  # a scheduler that has gone
                    self._client.cancel(list(running), force=True)

    def _submitted(self, wanted: Wanted) -> Any:
        resources = {RESOURCE: 1} if self._emulated else {}
        # Its order is that of the sweep, and nothing that it returns is ever the same as another task's.
        return self._client.submit(_made, self._sent, wanted, pure=False, resources=resources, retries=0)

    def _fetched(self, over: Mapping[Any, Wanted], todo: deque[Wanted]) -> Iterator[Cell]:
        """Keep what came of tasks that are `over`; cells that have to be tried again go back to `todo`.

        All that is finished is fetched at once, before the first of it is kept: until then it is lost with its worker.
        """
        failed = {future: wanted for future, wanted in over.items() if future.status == "error"}
        finished = [future for future in over if future not in failed]
        made: list[Made] = self._client.gather(finished, errors="skip") if finished else []
        for cell, packed in made:
            keep_cell(self._cells, cell, functools.partial(_unpack, packed) if packed else None)
            yield cell
        for future, wanted in failed.items():
            yield self._not_made(future.exception(), wanted)
        fetched = {cell.name for cell, _ in made}
        # What was lost, as where the scheduler was started anew, or a worker died that held it.
        todo.extendleft(over[future] for future in finished if over[future].name not in fetched)

    def _not_made(self, error: Any, wanted: Wanted) -> Cell:
        """The cell whose workers died of it, kept as failed; InputError where a worker cannot make cells at all."""
        from distributed.scheduler import KilledWorker

        if isinstance(error, KilledWorker):
            cell = self._failed(
                wanted, "the workers that were at it died, one after the other; is there memory enough?"
            )
            keep_cell(self._cells, cell)
            return cell
        if isinstance(error, OtherCodeError):
            raise InputError(_other_code(str(error)))
        raise InputError(
            f"--cluster: a worker cannot make cells ({type(error).__name__}: {error}); install: {_INSTALL}"
        )

    def _failed(self, wanted: Wanted, reason: str) -> Cell:
        return Cell(
            name=wanted.name, backend=self._sweep.backend, policy=wanted.policy, seed=wanted.seed,
            settings=dict(wanted.settings), reasons=(reason,), failed=True,
            ended=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )  # fmt: skip

    def _workers(self) -> dict[str, int]:
        """Threads of each worker that may be given a task."""
        found: dict[str, int] = self._client.nthreads()
        if not self._emulated:
            return found
        return dict.fromkeys(_emulating(self._client), 1)

    def _threads(self) -> int:
        """Threads that may be given a task; a word where no worker is left, and RunError where the scheduler has gone."""
        try:
            workers = self._workers()
        except (OSError, TimeoutError, ValueError, RuntimeError, AttributeError):
            raise RunError("--cluster: the scheduler has gone, or cannot be reached any more") from None
        if not workers and not self._told_alone:
            self._report(Warned("no worker is left on the cluster; the sweep goes on when one comes"))
        self._told_alone = not workers
        return sum(workers.values())


def _sent(sweep: Sweep) -> bytes:
    """The sweep as it goes to workers, which have working folders of their own."""
    return pickle.dumps(dataclasses.replace(sweep, path=sweep.path.absolute()))


def _made(sent: bytes, wanted: Wanted) -> Made:
    """On a worker: make a cell."""
    sweep, names, computer = _known(sent)
    if names.of(wanted.settings, wanted.policy, wanted.seed) != wanted.name:
        raise OtherCodeError(f"worker on {socket.gethostname()}")
    return (computer.compute(wanted), {}) if sweep.backend == "fluid" else _emulated(sweep, wanted)


@functools.lru_cache(maxsize=1)
def _known(sent: bytes) -> tuple[Sweep, Names, Computer]:
    """What a worker needs of a sweep, made once."""
    sweep: Sweep = pickle.loads(sent)  # noqa: S301  (of our own client: whoever talks to a dask worker can run code there)
    return sweep, Names(sweep), Computer(sweep.data, sweep.path, sweep.policies)


def _code(sent: bytes) -> str:
    """On a worker: which code it computes with."""
    return _known(sent)[1].code


def _emulated(sweep: Sweep, wanted: Wanted) -> Made:
    from echelon.sweeps.on_packets import emulated

    with tempfile.TemporaryDirectory(prefix="echelon-cell-") as folder:
        root = Path(folder) / RUN
        cell = emulated(sweep, wanted, root, lambda _: None)
        return cell, _packed(root)


def _packed(root: Path) -> Packed:
    """The files of a run folder by their places in it, compressed; none where there is no folder."""
    return {
        path.relative_to(root).as_posix(): zlib.compress(path.read_bytes(), 1)
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def _unpack(packed: Packed, place: Path) -> None:
    """Put them into the run folder of the cell whose folder is `place`."""
    root = (place / RUN).resolve()
    for name, content in packed.items():
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise RunError(f"--cluster: a worker sent a file for {name!r}, which is outside of the cell's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(zlib.decompress(content))
