"""Describes the controller's interfaces in docs/northbound.md and docs/openapi.json: `python -m echelon.documents.interfaces`.

Fields and bounds stand in one place, at the types and constants themselves.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from controller import clients, declarations, flow_books, gate, http_server, openflow_server, rest
from controller.northbound import ERRORS, MOST_BODY_BYTES, OPERATIONS
from controller.openapi import description
from echelon.documents.made_pages import with_made
from echelon.places import DOCS
from echelonflow.scheduling import ahead, flow_windows
from echelonflow.tables import markdown_table
from echelonflow.wire import messages
from echelonflow.wire.rest import encoded

PAGE = DOCS / "northbound.md"
DESCRIPTION = DOCS / "openapi.json"
END = "<!-- end of what is made -->"


def message_table() -> str:
    """Every message with its fields and what they may be; then what a message is made of."""
    kinds = [
        *typing.get_args(messages.Message),
        messages.FlowDeclaration,
        messages.Before,
        messages.GraphStep,
        messages.Setting,
        messages.Queues,
        messages.ClassShare,
    ]
    rows = []
    for kind in kinds:
        info = msgspec.inspect.type_info(kind)
        assert isinstance(info, msgspec.inspect.StructType)
        fields = "; ".join(_field(field) for field in info.fields) or "-"
        words = (inspect.getdoc(kind) or "").partition("\n")[0].replace("|", "\\|")
        rows.append([f"`{info.tag or kind.__name__}`", fields, words])
    return markdown_table(["message", "fields", "meaning"], rows, align="lll")


def _field(field: msgspec.inspect.Field) -> str:
    return f"`{field.name}`{'' if field.required else ' (optional)'}: {_bounds(field.type)}"


def _bounds(kind: Any) -> str:  # noqa: PLR0911 one return for each kind of type
    """What a value may be, in words."""
    match kind:
        case msgspec.inspect.StrType():
            return f"text of {kind.min_length or 0} to {kind.max_length} characters" if kind.max_length else "text"
        case msgspec.inspect.IntType():
            return f"{_least(kind)} to {kind.le if kind.lt is None else kind.lt - 1:,}" if _bounded(kind) else "integer"
        case msgspec.inspect.FloatType():
            return (
                f"{'over ' if kind.gt is not None else ''}{_least(kind):g} to {kind.le:g}"
                if _bounded(kind)
                else "number"
            )
        case msgspec.inspect.VarTupleType():
            most = f", at most {kind.max_length:,}" if kind.max_length else ""
            return f"list{most}, each {_bounds(kind.item_type)}"
        case msgspec.inspect.TupleType():
            return f"list of {', '.join(map(_bounds, kind.item_types))}"
        case msgspec.inspect.StructType():
            return f"`{kind.cls.__name__}`"
        case msgspec.inspect.UnionType():
            return " or ".join(_bounds(part) for part in kind.types)
        case _:
            return "null"


def _least(kind: Any) -> Any:
    return kind.gt if kind.ge is None else kind.ge


def _bounded(kind: Any) -> bool:
    return kind.le is not None or kind.lt is not None


def _listed(rows: list[tuple[str, str]]) -> str:
    return markdown_table(["bound", "value"], [list(row) for row in rows], align="ll")


def bounds_table() -> str:
    """What one client, and all of them, may take of a controller."""
    return _listed(
        [
            ("flows that are declared, of all clients", f"{declarations.MOST_DECLARED:,}"),
            ("flows that declarations name as coming before others, of all clients", f"{ahead.MOST_NAMED:,}"),
            ("steps that graphs of jobs name, of all clients", f"{flow_windows.MOST_STEPS:,}"),
            ("what waits for what in them, of all clients", f"{flow_windows.MOST_WAITS:,}"),
            ("flows in flight, of all clients", f"{flow_books.MOST_IN_FLIGHT:,}"),
            ("clients at once", f"{gate.MOST_CLIENTS:,}"),
            ("of them such that have not said `hello`", f"{gate.MOST_UNKNOWN} (who has waited longest gives way)"),
            ("time until `hello`", f"{gate.HELLO_LIMIT_S:g} s"),
            ("length of `hello`", f"{gate.LONGEST_HELLO_BYTES:,} bytes"),
            ("length of any other line", f"{gate.LONGEST_LINE_BYTES >> 20} MiB"),
            ("messages of a client", f"{gate.MESSAGES_PER_S:,} per second, {gate.MOST_MESSAGES_AT_ONCE:,} at once"),
            (
                "bytes of a client",
                f"{gate.BYTES_PER_S >> 20} MiB per second, {gate.MOST_BYTES_AT_ONCE >> 20} MiB at once",
            ),
            (
                "what a client may leave unread",
                f"{clients.MOST_UNSENT:,} messages, {gate.MOST_UNSENT_BYTES >> 20} MiB, for {clients.SEND_LIMIT_S:g} s",
            ),
        ]
    )


def operation_table() -> str:
    """What may be asked by REST."""
    rows = [
        [f"`{method} {path}`", operation.summary, ", ".join(map(str, operation.errors)) or "-"]
        for path, methods in OPERATIONS.items()
        for method, operation in methods.items()
    ]
    return markdown_table(["request", "answer", "errors of its own"], rows, align="lll")


def error_table() -> str:
    """What REST answers where it does not do what is asked."""
    return markdown_table(["status", "why"], [[str(code), why] for code, why in ERRORS.items()], align="ll")


def http_table() -> str:
    """What one request, and all of them, may take of a controller; each listening socket counts by itself."""
    return _listed(
        [
            ("time for request line and headers", f"{http_server.HEAD_LIMIT_S:g} s"),
            ("time for the body", f"{rest.BODY_LIMIT_S:g} s"),
            ("time to take the answer", f"{http_server.ANSWER_LIMIT_S:g} s"),
            ("length of a line of the head", f"{http_server.LONGEST_LINE:,} bytes"),
            ("length of the body", f"{MOST_BODY_BYTES:,} bytes"),
            ("connections that have not sent their request", f"{http_server.MOST_WAITING} (the oldest gives way)"),
            ("connections that are being answered", f"{http_server.MOST_ANSWERED}"),
        ]
    )


def openflow_table() -> str:
    """What switches, and who pretends to be one, may take of a controller."""
    return _listed(
        [
            ("connections at once", f"{openflow_server.MOST_CONNECTIONS:,}"),
            ("of them such that have not said who they are", f"{openflow_server.MOST_UNKNOWN} (the oldest gives way)"),
            ("time for the TLS handshake", f"{openflow_server.TLS_LIMIT_S:g} s"),
            ("time until the datapath id is known", f"{openflow_server.HANDSHAKE_LIMIT_S:g} s"),
        ]
    )


MADE: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "messages": message_table,
        "bounds": bounds_table,
        "operations": operation_table,
        "errors": error_table,
        "http": http_table,
        "openflow": openflow_table,
    }
)


def page(text: str) -> str:
    """The page with all made parts made anew."""
    for part, make in MADE.items():
        text = with_made(text, f"<!-- made by echelon/documents/interfaces.py: {part} -->", END, make())
    return text


def main() -> None:
    """Write the page and the description."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    DESCRIPTION.write_bytes(encoded(description()))
    print(f"wrote {PAGE} and {DESCRIPTION}")


if __name__ == "__main__":
    main()
