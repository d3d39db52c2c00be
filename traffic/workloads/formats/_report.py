"""What an importer hands back: the job's DAG, and an account of what became of everything that was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from echelonflow.model.dag import JobDag
from echelonflow.model.discipline import Discipline
from traffic.workloads.formats._account import Account, Balance


@dataclass(frozen=True)
class Report:
    """The account of one import, for a person to read before trusting the job."""

    read: tuple[str, ...]
    """What was found in the files."""
    dropped: tuple[str, ...]
    """What was found and is not in the job, with the reason."""
    assumed: tuple[str, ...]
    """What the files do not say and was decided by an option or a default."""
    balance: Balance
    """Bytes, computation and collectives: as the files list them, and in the job, every difference with its cause."""

    @classmethod
    def of(
        cls,
        account: Account,
        dag: JobDag,
        *,
        source: str,
        read: Sequence[str],
        dropped: Sequence[str] = (),
        assumed: Sequence[str] = (),
    ) -> Report:
        """The report of `dag`, made of `source`; `dropped` is what has neither bytes, time nor number.

        Raises RunError where the job differs from what was read and `account` has no cause for it.
        """
        balance = account.balance(source, dag)
        return cls(tuple(read), (*account.lost(), *dropped), tuple(assumed), balance)

    def lines(self) -> list[str]:
        """The report as lines of text."""
        return [
            *_listed("read", self.read),
            *_listed("dropped", self.dropped or ("nothing",)),
            *_listed("assumed", self.assumed or ("nothing",)),
            *_listed("account", self.balance.lines()),
        ]


@dataclass(frozen=True)
class Imported:
    """One iteration of a job, read from somebody else's files."""

    dag: JobDag
    report: Report
    discipline: Discipline | None = None
    """Of the job scheduler that put in order what it sends, where the files tell of one."""


def _listed(title: str, entries: Sequence[str]) -> list[str]:
    return [f"{title if i == 0 else '':9}{entry}" for i, entry in enumerate(entries)]
