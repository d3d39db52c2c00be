"""The agent inside a PyTorch process: a process group whose collectives travel over connections that a scheduler controls.

    import traffic.live                                  # registers the backend "echelon"
    torch.distributed.init_process_group("echelon")

torch is imported in this room alone. It is not among what the testbed needs: `scripts/setup.sh --live` installs it.
"""

from __future__ import annotations

from typing import Any

from echelonflow.errors import InputError

try:
    import torch.distributed as _dist
except ImportError as _error:
    raise InputError(f"traffic.live needs PyTorch ({_error}); install it by: scripts/setup.sh --live") from None

BACKEND = "echelon"


def _create(options: Any, _: Any) -> Any:
    from traffic.live.process_group import create

    return create(options)


def register() -> None:
    """Make torch know the backend, once. RuntimeError of torch's where this torch has no distributed package."""
    if not _dist.is_available():
        raise InputError("this PyTorch was built without torch.distributed; install one that has it")
    if not hasattr(_dist.Backend, BACKEND.upper()):
        _dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])


register()
