"""Standard error, where a person reads how far work is."""

from __future__ import annotations

import os
import sys

from rich.console import Console


class StandardError(Console):
    """Where nobody reads it any more, as behind `2>&1 | head`, work goes on unread. A plain Console would end the process."""

    def __init__(self) -> None:
        super().__init__(stderr=True)

    def on_broken_pipe(self) -> None:
        """Called by rich in the place of the error."""
        self.quiet = True
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stderr.fileno())  # for all that is still to be said, also by what is started
        os.close(null)
