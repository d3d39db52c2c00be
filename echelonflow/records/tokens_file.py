"""Tokens, by which clients of a controller prove who they are: made, kept in files for their owner alone, compared.

A file of tokens maps each host to its own; the runner's stands under the empty name. So who knows the token of one host
cannot claim another. A file that others than its owner may read is refused: what is in it proves nothing.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from echelonflow.codec import Document
from echelonflow.errors import InputError
from echelonflow.files import write_private

RUNNER = ""
"""The runner's name among hosts."""
TOKEN_VARIABLE = "ECHELON_TOKEN"  # noqa: S105 the variable's name, not a token
"""Environment variable in which a client finds its token: other users cannot read it, as they can a command line."""
SHORTEST_TOKEN = 16
LONGEST_TOKEN = 256


class Tokens(msgspec.Struct, frozen=True):
    """The token of every host, and the runner's."""

    tokens: dict[str, str]


_FILE = Document("tokens", 1, Tokens)


def make_tokens(hosts: Iterable[str]) -> dict[str, str]:
    """A fresh token for the runner and for each host."""
    return {name: new_token() for name in (RUNNER, *hosts)}


def new_token() -> str:
    """A token that nobody guesses: 256 bits."""
    return secrets.token_urlsafe(32)


def with_token(token: str) -> dict[str, str]:
    """The environment of a child that is to show `token`: ours, and the token."""
    return {**os.environ, TOKEN_VARIABLE: token}


def same(expected: str, given: str) -> bool:
    """Whether two tokens are one, in a time that does not tell how far they agree."""
    return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))


def write_tokens(path: Path, tokens: Mapping[str, str]) -> None:
    """Write a file of tokens for this user alone."""
    body = {"schema": _FILE.schema, "version": _FILE.version, "tokens": dict(tokens)}
    write_private(path, msgspec.json.format(msgspec.json.encode(body), indent=1) + b"\n")


def read_tokens(path: Path) -> dict[str, str]:
    """The tokens in a file; InputError where there is none, others may read it, or a token is too short."""
    _check_private(path)
    found = _FILE.read(path).tokens
    for host, token in found.items():
        _check_token(f"{path}: the token of {host or 'the runner'}", token)
    return found


def read_token(path: Path) -> str:
    """The one token that is all of a file (InputError as for `read_tokens`)."""
    _check_private(path)
    try:
        token = path.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as a token: {getattr(error, 'strerror', None) or error}") from None
    _check_token(f"{path}: the token", token)
    return token


def _check_private(path: Path) -> None:
    try:
        found = path.stat()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    mode = stat.S_IMODE(found.st_mode)
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path}: is not a file")
    if mode & 0o077:
        raise InputError(f"{path}: others may read it (mode {mode:03o}), so its tokens prove nothing: chmod 600 {path}")


def _check_token(what: str, token: str) -> None:
    if not SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN:
        raise InputError(f"{what} has {len(token)} characters; {SHORTEST_TOKEN} to {LONGEST_TOKEN} are taken")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(f"{what} holds other characters than printable ASCII without spaces")
