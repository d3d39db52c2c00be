"""experiment.yaml in a run folder: the experiment as it was run, which `echelon run` takes as it is."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from echelonflow.files import write_whole

_HEAD = """\
# The experiment as it was run, with what the command line said; names of files are absolute.
# Run it again: {command}
"""
_NEVER_FOLDED = 1 << 20
"""Columns: a text that went on in the next line would be the same, and harder to read."""


def experiment_text(experiment: Mapping[str, Any], command: str) -> str:
    """The YAML of an experiment, keys in their order, after a comment that says by which `command` it is run again."""
    from ruamel.yaml import YAML  # where it is needed: agents and controllers never do

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.allow_unicode = True
    yaml.width = _NEVER_FOLDED
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment] # its own types take it for None
    with io.StringIO() as file:
        yaml.dump(dict(experiment), file)
        return _HEAD.format(command=command) + file.getvalue()


def rerun_command(backend: str) -> str:
    """The command that runs experiment.yaml again, where that lies in the current folder."""
    return "echelon run experiment.yaml" + (" --backend fluid" if backend == "fluid" else "")


def sweep_command(backend: str) -> str:
    """The command that makes a sweep again, where its file, sweep.yaml, lies in the current folder."""
    return "echelon sweep sweep.yaml" + (" --backend emulation" if backend == "emulation" else "")


def write_experiment_file(path: Path, experiment: Mapping[str, Any], backend: str) -> None:
    """Write experiment.yaml."""
    write_whole(path, experiment_text(experiment, rerun_command(backend)))
