"""A stand-in for `tc -batch -`: writes down what it is told, answers where tc would, and can be made to fail."""

from __future__ import annotations

from pathlib import Path

from echelonflow.tc_batch import TcBatch

_SCRIPT = """
while read -r line; do
  case "$line" in
    qdisc*) echo "qdisc noqueue 0: dev lo" ;;
    *{bad}*) echo "Error: no such class." >&2; echo "Command failed -:1" >&2; exit 1 ;;
    *) echo "$line" >> {told} ;;
  esac
done
"""


class FakeTc:
    """Starts such processes; a line that holds `bad` makes one fail."""

    def __init__(self, folder: Path, bad: str = "nothing is called so") -> None:
        self._told = folder / "told.txt"
        self._command = ("sh", "-c", _SCRIPT.format(bad=f'"{bad}"', told=self._told))

    def __call__(self) -> TcBatch:
        return TcBatch(self._command)

    @property
    def told(self) -> list[str]:
        return self._told.read_text().splitlines() if self._told.exists() else []
