"""Executes the notebooks in examples/ and keeps what they show: `python -m echelon.documents.notebooks`. Takes Jupyter's nbclient."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from echelon.places import EXAMPLES
from echelonflow.errors import InputError
from echelonflow.files import write_whole

_LIMIT_S = 240


def executed(path: Path) -> Any:
    """The notebook in a file with what its cells show now (InputError where a cell fails, or Jupyter is missing)."""
    try:
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError
    except ImportError as error:
        raise InputError(f"executing a notebook takes {error.name}: scripts/setup.sh --dev installs it") from None
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=_LIMIT_S, resources={"metadata": {"path": str(path.parent)}}, record_timing=False
    )
    try:
        # A loop of its own, in a thread of its own: the caller may have one (a notebook, a driven browser).
        with ThreadPoolExecutor(max_workers=1) as aside:
            aside.submit(asyncio.run, client.async_execute()).result()
    except CellExecutionError as error:
        raise InputError(f"{path}: a cell fails: {error.ename}: {error.evalue}") from None
    return notebook


def shown(notebook: Any) -> list[list[str]]:
    """What each cell of code shows as text, in turn: printed, and the value of its last line."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            told = [out for out in cell.outputs if out.get("name") != "stderr"]  # which comes in pieces, as time allows
            found.append([str(out.get("text") or out.get("data", {}).get("text/plain", "")) for out in told])
    return found


def main(folder: Path = EXAMPLES) -> None:
    """Execute all notebooks, and write them with what they show."""
    import nbformat

    for path in sorted(folder.glob("*.ipynb")):
        write_whole(path, nbformat.writes(executed(path)) + "\n")


if __name__ == "__main__":
    main()
