"""Runs a training script with the process group `echelon`: python -m traffic.live SCRIPT ARGUMENTS....

Ranks are told apart as torchrun does it, by RANK and WORLD_SIZE. Under `echelon live`, ECHELON_LIVE_PART names a file that says all of it.
Ends with 2 for what cannot be run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from echelonflow.errors import EchelonError
from echelonflow.records.live_part import PART_VARIABLE, read_part

SCHEDULER_VARIABLE = "ECHELON_SCHEDULER"
"""Names a job scheduler, such as bytescheduler(partition=1 MB), to a program that is started without the launcher."""


def main(argv: list[str]) -> int:
    """Run the script; returns the exit code."""
    scheduler = os.environ.get(SCHEDULER_VARIABLE)
    try:
        path = os.environ.get(PART_VARIABLE)
        if path is not None:
            part = read_part(Path(path))
            argv, scheduler = [part.program, *part.arguments], part.scheduler
            os.environ |= {
                "RANK": str(part.rank), "WORLD_SIZE": str(part.ranks), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                "ECHELON_ADDRESS": part.address, "ECHELON_STORE": part.store,
            }  # fmt: skip
        if not argv:
            print("usage: python -m traffic.live SCRIPT [ARGUMENT ...]", file=sys.stderr)
            return 2
        from traffic.live.script import run

        run(Path(argv[0]), argv[1:], scheduler)
    except EchelonError as error:
        print(f"echelon live: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
