"""How records become JSON and come back: documents (a file each) and logs (a line each), both with a version.

A document says what it is in its first two keys, "schema" and "version"; a log in its first line. What was written
before there were versions counts as version 0. A reader knows its own version, and older ones by a function that
brings their data up to date. Anything else is refused in one line that says which version it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from echelonflow.errors import InputError
from echelonflow.files import write_whole

Upgrade = Callable[[Any, Path], Any]
"""From the data of one version to those of the next; the path is that of the file, for data kept beside it."""
Record = TypeVar("Record")
_VERSION_WITHOUT_HEADER = 0
MOST_BYTES = 1 << 32
"""Of a file that is read at once. Our largest are far smaller; a file with holes takes no disk, and all memory when read."""


class Header(msgspec.Struct, frozen=True):
    """What a log's first line says, and a document's first keys."""

    schema: str = ""
    version: int = _VERSION_WITHOUT_HEADER


class Document(Generic[Record]):
    """A JSON file that holds one record of type `kind`.

    `upgrades` maps an older version to the function that makes its data those of the version after it. One that is
    `compact` has no line breaks: where it is mostly numbers, there would be one behind each.
    """

    def __init__(
        self,
        schema: str,
        version: int,
        kind: type[Record],
        upgrades: Mapping[int, Upgrade] | None = None,
        *,
        compact: bool = False,
    ) -> None:
        self.schema = schema
        self.version = version
        self._kind = kind
        self._upgrades = dict(upgrades or {})
        self._compact = compact
        self._fields: tuple[str, ...] = getattr(kind, "__struct_fields__", ())

    def write(self, path: Path, record: Record) -> None:
        """Write `record` to `path`, whole or not at all (StorageError)."""
        header = {"schema": self.schema, "version": self.version}
        if self._compact:  # and large: nothing of it is copied
            text = msgspec.json.encode({**header, **{name: getattr(record, name) for name in self._fields}})
        else:
            text = msgspec.json.format(msgspec.json.encode({**header, **builtins(record)}), indent=1)
        write_whole(path, text + b"\n", durable=True)

    def read(self, path: Path) -> Record:
        """The record in `path`; InputError, naming the file, where there is none or it cannot be read here."""
        data = read_json(path)
        if not isinstance(data, dict):
            raise InputError(f"{path}: is not a JSON object")
        header = Header(data.pop("schema", ""), data.pop("version", _VERSION_WITHOUT_HEADER))
        for version in check(header, self.schema, self.version, self._upgrades, path):
            data = _upgraded(self._upgrades[version], data, path)
        return convert(data, self._kind, str(path))


class Log(Generic[Record]):
    """A file of JSON lines, one record of type `kind` (or of one of the types of a tagged union) a line.

    `to_text` and `from_text` (type and text) are for values that JSON does not know, such as arrays.
    """

    def __init__(
        self,
        schema: str,
        version: int,
        kind: Any,
        upgrades: Mapping[int, Upgrade] | None = None,
        *,
        to_text: Callable[[Any], Any] | None = None,
        from_text: Callable[[type, Any], Any] | None = None,
    ) -> None:
        self.schema = schema
        self.version = version
        self._upgrades = dict(upgrades or {})
        self._decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(kind, dec_hook=from_text)
        self._encoder = msgspec.json.Encoder(enc_hook=to_text)

    @property
    def header(self) -> bytes:
        """The first line of a log."""
        return self._encoder.encode(Header(self.schema, self.version)) + b"\n"

    def line(self, record: Record) -> bytes:
        """The record as a line, with its end."""
        return self._encoder.encode(record) + b"\n"

    def read(self, path: Path, faults: list[str] | None = None, *, containing: bytes = b"") -> Iterator[Record]:
        """The records in `path`, in order; of those lines alone that contain a text, where one is given.

        None where the file does not exist, and none of a last line without an end: a run that was killed leaves such.
        Raises InputError, naming file and line, for a line in the middle that is not such a record. Where `faults` are
        asked for, they are told instead, and what cannot be read is left out.
        """
        try:
            complete, _, _ = _content(path).rpartition(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            _tell(faults, InputError(f"{path}: cannot be read: {error.strerror}"))
            return
        except InputError as error:
            _tell(faults, error)
            return
        lines = complete.splitlines()
        header = _header(lines)
        try:
            upgrades = check(header, self.schema, self.version, self._upgrades, path)
        except InputError as error:
            _tell(faults, error)
            return
        for number, line in enumerate(lines, start=1):
            if (number == 1 and header.schema) or containing not in line:
                continue
            try:
                record = self._record(line, upgrades, path, number)
            except InputError as error:
                _tell(faults, error)
                continue
            yield record

    def _record(self, line: bytes, upgrades: list[int], path: Path, number: int) -> Record:
        where = f"{path}, line {number}"
        try:
            if not upgrades:
                return self._decoder.decode(line)
            data = msgspec.json.decode(line)
            for version in upgrades:
                data = _upgraded(self._upgrades[version], data, path)
            return self._decoder.decode(msgspec.json.encode(data))
        except msgspec.ValidationError as error:
            raise InputError(f"{where}: {explain(error)}") from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"{where}: is not JSON: {error}") from None


def _tell(faults: list[str] | None, error: InputError) -> None:
    """Raise, or add to what is told."""
    if faults is None:
        raise error from None
    faults.append(str(error))


def builtins(record: Any) -> Any:
    """The record as dicts, lists, text and numbers."""
    return msgspec.to_builtins(record, str_keys=True)


def convert(data: Any, kind: type[Record], where: str) -> Record:
    """The record of type `kind` that `data` stands for; InputError, beginning with `where`, if it is none."""
    try:
        return msgspec.convert(data, kind, str_keys=True)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {explain(error)}") from None
    except (InputError, ArithmeticError) as error:  # of a class that checks itself
        raise InputError(f"{where}: {error}") from None


def _content(path: Path) -> bytes:
    """All of the file; InputError where it is longer than any that we write (OSError where it cannot be read)."""
    if path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path}: is longer than {MOST_BYTES >> 30} GiB, which no record is")
    return path.read_bytes()


def read_json(path: Path) -> Any:
    """The JSON document in `path` (InputError, naming the file, if there is none)."""
    try:
        return msgspec.json.decode(_content(path))  # which knows no NaN and no number without bounds
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON: {error}") from None


def check(header: Header, schema: str, version: int, upgrades: Mapping[int, Upgrade], path: Path) -> list[int]:
    """The upgrades that bring what has this header to `version`, in order; InputError where there are none."""
    if header.schema not in ("", schema):
        raise InputError(f"{path}: is {header.schema!r}; {schema!r} was expected")
    if not isinstance(header.version, int) or not _VERSION_WITHOUT_HEADER <= header.version <= version:
        raise InputError(
            f"{path}: is {schema} of version {header.version!r}; this revision reads up to {version}: "
            "use the revision that wrote it, which manifest.json names under git"
        )
    needed = list(range(header.version, version))
    missing = [old for old in needed if old not in upgrades]
    if missing:
        raise InputError(
            f"{path}: is {schema} of version {header.version}, which this revision no longer reads (it reads {version}); "
            "use the revision that wrote it, which manifest.json names under git"
        )
    return needed


def explain(error: msgspec.ValidationError) -> str:
    """The library's words as ours: the place first, then what was expected."""
    match = re.fullmatch(r"(.*?)(?: - at `(.*)`)?", str(error), re.DOTALL)
    assert match is not None
    place = (match[2] or "").removeprefix("$").removeprefix(".")
    words = _words(match[1])
    return f"{place}: {words}" if place else words


_KNOWN_WORDS = (
    (r"Object missing required field `(.*)`", r"missing field \1"),
    (r"Object contains unknown field `(.*)`", r"unknown field \1"),
    (r"Expected `(.*)`, got `(.*)`", r"expected \1, not \2"),
    (r"Expected `(.*?)` ((?:of length )?[<>]=? .*)", r"expected \1 \2"),
    (r"Expected `str` matching regex '(.*)'", r"expected str matching \1"),
    (r"Invalid value '(.*)'", r"unknown type '\1'"),
)


def _words(text: str) -> str:
    for pattern, words in _KNOWN_WORDS:
        if re.fullmatch(pattern, text):
            return re.sub(pattern, words, text)
    return text[:1].lower() + text[1:]


def _header(lines: list[bytes]) -> Header:
    if not lines or b'"schema"' not in lines[0]:
        return Header()
    try:
        return msgspec.json.decode(lines[0], type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Header()


def _upgraded(upgrade: Upgrade, data: Any, path: Path) -> Any:
    try:
        return upgrade(data, path)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise InputError(f"{path}: is malformed: {error!r}") from None
