"""A YAML file of somebody's as plain data with its line numbers: read within bounds, refused in the file's own terms.

ruamel.yaml finds the structure and the type of every scalar. What it makes of them is decided here: text, numbers, truth
values and nothing, in lists and mappings by text. Its own words for what is no YAML are replaced.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from echelon.experiment.recognise import looks_like_experiment, other_file, other_folder
from echelonflow.errors import InputError
from echelonflow.spelling import did_you_mean, shown

MOST_BYTES = 256 * 1024
MOST_NESTING = 32
MOST_VALUES = 100_000
"""Aliases counted as often as they are used: few lines of YAML can stand for billions of values."""
MOST_FAULTS = 20
"""Of the file as such that are listed."""
_LARGEST = 1 << 63
_TAG = "tag:yaml.org,2002:"
_PLAIN = frozenset(_TAG + kind for kind in ("str", "int", "float", "bool", "null"))
_MERGE = _TAG + "merge"
_CONTAINERS = frozenset((_TAG + "map", _TAG + "seq"))
_DEEP = f"is nested too deeply; an experiment file is at most {MOST_NESTING} deep"
_WORDS = (
    (
        "cannot start any token",
        "a tab or one of @ ` % stands where a value begins; indent by spaces, put such text in quotes",
    ),
    ("mapping values are not allowed", "a colon stands where none can; put text that holds ': ' in quotes"),
    ("could not find expected ':'", "a key without its colon; write `key: value`"),
    ("expected ',' or ']'", "a list that began with [ is not closed, or lacks a comma"),
    ("expected ',' or '}'", "a mapping that began with { is not closed, or lacks a comma"),
    ("expected <block end>", "the indentation does not fit that of the lines before"),
    ("unexpected end of stream", "text that began with a quote is not closed"),
    ("found unexpected document separator", "text that began with a quote is not closed"),
    ("undefined alias", "a text that begins with * is an alias of something that is not there; put it in quotes"),
    ("expected a single document", "a second document begins (---); an experiment file holds one"),
    ("escape", "a \\ in double quotes stands for a special character; use single quotes"),
    ("expected alphabetic or numeric", "a text that begins with * or & is an alias or an anchor; put it in quotes"),
    ("tag", "a text that begins with ! is a tag; put it in quotes"),
)
"""What ruamel.yaml says of a fault (a part of it), and what that means to somebody who writes an experiment."""


@dataclass(frozen=True)
class YamlFile:
    """What a file holds, where each part of it stands, and what is wrong with it as YAML."""

    path: Path
    data: dict[str, Any]
    faults: tuple[str, ...]
    """Each as "path: what is wrong": keys that stand twice, values that are no plain data."""
    _root: Node = field(repr=False)

    def line_of(self, where: str) -> int | None:
        """The line (from 1) of the part at path `where`, such as jobs.0.stages, or of the nearest part around it."""
        node, line = self._root, None
        for part in where.split("."):
            found = _child(node, part)
            if found is None:
                return line
            node, line = found
        return line


def read(path: Path) -> YamlFile:
    """The mapping in the file at `path`.

    Raises InputError, naming file and line, for what is no YAML, is no mapping, is a file of another kind, or is beyond
    the bounds of this module.
    """
    content = _content(path)
    another = other_file(path, content)
    if another is not None:
        raise InputError(f"{path}: {another}")
    if len(content) > MOST_BYTES:
        raise InputError(f"{path}: is longer than {MOST_BYTES // 1024} KiB, which no experiment file is")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: is not text: byte 0x{content[error.start]:02x}; save it as UTF-8") from None
    if path.suffix not in (".yaml", ".yml") and not looks_like_experiment(content):
        raise InputError(
            f"{path}: is empty or no experiment: no line of it begins with name:, network:, jobs: or policies:"
        )
    root = _composed(path, text)
    if not isinstance(root, MappingNode):
        raise InputError(
            f"{path}: is {'empty' if root is None else 'not a mapping'}; an experiment has name, network, jobs and policies"
        )
    maker = _Maker()
    try:
        data = maker.value(root, "", 0)
    except _TooMuchError as error:
        line = error.node.start_mark.line + 1
        raise InputError(f"{path}:{line}: {error}") from None
    return YamlFile(path, data, tuple(maker.faults), root)


def value_of(text: str, said: str) -> Any:
    """The value that a piece of YAML stands for, such as "40 Mbit/s", 5 or [h1, h2]; InputError, beginning with `said`."""
    if not text.strip():
        raise InputError(f"{said}: has no value; write null where nothing is meant")
    if len(text) > MOST_BYTES:
        raise InputError(f"{said}: is longer than {MOST_BYTES // 1024} KiB, which no value is")
    root = _composed(said, text)
    maker = _Maker()
    try:
        value = None if root is None else maker.value(root, "", 0)
    except _TooMuchError as error:
        raise InputError(f"{said}: {error}") from None
    if maker.faults:
        raise InputError(f"{said}: {maker.faults[0].removeprefix('file: ')}")
    return value


def _content(path: Path) -> bytes:
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise InputError(f"{path}: {other_folder(path)}")
        if not stat.S_ISREG(kind):
            raise InputError(f"{path}: cannot be read: it is no regular file")
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        near = _near(path) if isinstance(error, FileNotFoundError) else ""
        raise InputError(f"{path}: cannot be read: {reason}{near}") from None


def _near(path: Path) -> str:
    """What in the same folder may have been meant."""
    try:
        beside = {each.name: each for each in path.parent.glob("*.y*ml")}
    except OSError:
        return ""
    return did_you_mean(path.name, beside)


def _composed(path: Path | str, text: str) -> Node | None:
    """The tree of nodes in `text`, aliases being the same node again."""
    try:
        return YAML(typ="safe", pure=True).compose(text)  # type: ignore[no-any-return]
    except RecursionError:
        raise InputError(f"{path}: {_DEEP}") from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(f"{path}:{line}: holds a character that no text has; is it a file of another kind?") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = f"{error.context or ''} {error.problem or ''}"
        words = next((ours for theirs, ours in _WORDS if theirs in said), "look at quotes, brackets and indentation")
        where = f":{mark.line + 1}" if mark is not None else ""
        raise InputError(f"{path}{where}: is not YAML: {words}{_begun(error)}") from None
    except (YAMLError, ValueError, OverflowError, TypeError, AttributeError, IndexError):
        raise InputError(f"{path}: is not YAML: look at quotes, brackets and indentation") from None


def _begun(error: MarkedYAMLError) -> str:
    """Where that began which is not complete, if elsewhere."""
    begun, noticed = error.context_mark, error.problem_mark
    return f" (it began on line {begun.line + 1})" if begun and noticed and begun.line != noticed.line else ""


class _TooMuchError(Exception):
    def __init__(self, node: Node, words: str) -> None:
        super().__init__(words)
        self.node = node


class _Maker:
    """Makes values of nodes, and collects what is wrong with them."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._constructor = YAML(typ="safe", pure=True).constructor
        self._made: dict[int, tuple[Any, int]] = {}
        """By node: its value, and how many values a reader of it meets."""

    def value(self, node: Node, where: str, depth: int) -> Any:
        """The value of `node`, which stands at path `where`."""
        return self._counted(node, where, depth)[0]

    def _counted(self, node: Node, where: str, depth: int) -> tuple[Any, int]:
        if depth > MOST_NESTING:  # also where it holds itself
            raise _TooMuchError(node, f"{_short(where)}: {_DEEP}")
        if id(node) not in self._made:
            value, count = self._new(node, where, depth)
            if count > MOST_VALUES:
                raise _TooMuchError(
                    node, f"{_short(where) or 'file'}: holds more than {MOST_VALUES:,} values, aliases counted"
                )
            self._made[id(node)] = value, count
        return self._made[id(node)]

    def _new(self, node: Node, where: str, depth: int) -> tuple[Any, int]:
        if isinstance(node, ScalarNode):
            return self._scalar(node, where), 1
        if node.tag not in _CONTAINERS:
            self._refuse(where, f"a {_kind(node)} is no value of an experiment")
        if not isinstance(node, MappingNode):
            parts = [self._counted(child, _join(where, i), depth + 1) for i, child in enumerate(node.value)]
            return [value for value, _ in parts], 1 + sum(count for _, count in parts)
        found: dict[str, Any] = {}
        count = 1
        for key, line, child in self._entries(node, where, depth):
            found[key], more = self._counted(child, _join(where, key), depth + 1)
            count += more
            if count > MOST_VALUES:
                raise _TooMuchError(node, f"line {line}: more than {MOST_VALUES:,} values, aliases counted")
        return found, count

    def _entries(self, node: MappingNode, where: str, depth: int) -> Iterator[tuple[str, int, Node]]:
        """Key, its line and value's node; what is merged (<<) comes first, so that the mapping's own keys replace it."""
        if depth > MOST_NESTING:
            raise _TooMuchError(node, f"{_short(where)}: {_DEEP}")
        own: dict[str, int] = {}
        for source in _merged(node):
            yield from self._entries(source, where, depth + 1)
        for key_node, child in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag == _MERGE:
                if not all(isinstance(part, MappingNode) for part in _parts_of(child)):
                    self._refuse(where, "<< takes a mapping by its alias, such as `<<: *common`")
                continue
            key = str(key_node.value) if isinstance(key_node, ScalarNode) else "?"
            if not isinstance(key_node, ScalarNode) or key_node.tag != _TAG + "str":
                self._refuse(where or "file", f"the key {_short(key)} is not text; put it in quotes")
            if key in own:
                self._refuse(_join(where, key), f"stands twice, on line {own[key]} and on line {line}; remove one")
            else:
                own[key] = line
                yield key, line, child

    def _scalar(self, node: ScalarNode, where: str) -> Any:
        if node.tag not in _PLAIN:
            self._refuse(where, f"a {_kind(node)} is no value of an experiment; put it in quotes")
            return str(node.value)
        try:
            value = self._constructor.construct_object(node, deep=True)
        except (YAMLError, ValueError, OverflowError, TypeError, AttributeError, IndexError):
            self._refuse(where, f"{shown(str(node.value))} is no value that can be read; put it in quotes")
            return str(node.value)
        if isinstance(value, int) and not -_LARGEST < value < _LARGEST:
            self._refuse(where, f"is a number beyond 63 bits: {shown(str(node.value))}")
            return 0
        return value if value is None or isinstance(value, str | bool | int | float) else str(node.value)

    def _refuse(self, where: str, words: str) -> None:
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(f"{_short(where) or 'file'}: {words}")


def _child(node: Node, part: str) -> tuple[Node, int] | None:
    """The part of `node` called `part`, and the line where it begins."""
    if isinstance(node, SequenceNode):
        if not part.isdecimal() or len(part) > 9 or int(part) >= len(node.value):
            return None
        child = node.value[int(part)]
        return child, child.start_mark.line + 1
    if not isinstance(node, MappingNode):
        return None
    for key_node, child in node.value:
        if isinstance(key_node, ScalarNode) and key_node.value == part:
            return child, key_node.start_mark.line + 1
    for source in _merged(node):
        found = _child(source, part)
        if found is not None:
            return found
    return None


def _merged(node: MappingNode) -> list[MappingNode]:
    """The mappings that `node` takes in by <<, the one that counts most last."""
    found = [part for key, child in node.value if key.tag == _MERGE for part in reversed(_parts_of(child))]
    return [part for part in found if isinstance(part, MappingNode) and part is not node]


def _parts_of(node: Node) -> list[Node]:
    return list(node.value) if isinstance(node, SequenceNode) else [node]


def _join(where: str, part: object) -> str:
    return f"{where}.{part}" if where else str(part)


def _short(where: str) -> str:
    return where if len(where) <= 80 else where[:80] + "..."


def _kind(node: Node) -> str:
    """What a tag says that a value is, in a word."""
    word = str(node.tag or "").removeprefix(_TAG).lstrip("!")
    return {"timestamp": "date", "binary": "binary", "omap": "list of pairs"}.get(word, word[:20] or "tagged value")
