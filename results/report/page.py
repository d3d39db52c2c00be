"""One HTML file that needs no other: a template, the style, the chart library, and the data that it draws, all inside."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from echelonflow.files import write_whole
from results.report.charts import Chart

SCRIPTS = ("echarts/echarts.min.js", "report.js")
"""The chart library, and what draws with it."""
_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""What HTML or JavaScript might take for its own, as JSON writes it: a policy file may be called </script>."""


def environment() -> jinja2.Environment:
    """Templates of reports, in which whatever others wrote is text and never markup."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("results.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def write_page(
    path: Path,
    made: jinja2.Environment,
    template: str,
    charts: Mapping[str, Sequence[Chart]],
    scripts: Sequence[str] = SCRIPTS,
    **values: Any,
) -> Path:
    """Write the page that `template` makes of `values`, and of `charts` by the section that shows them; returns its path.

    Without any chart the library is left out. In templates `charts` holds the ids of a section's charts.
    """
    data = {f"{section}-{i}": chart for section, mine in charts.items() for i, chart in enumerate(mine)}
    ids = {section: [f"{section}-{i}" for i in range(len(mine))] for section, mine in charts.items()}
    text = made.get_template(template).render(
        charts=ids,
        chart=data,
        style=Markup(_static("report.css")),  # noqa: S704 -- files of ours
        scripts=[Markup(_static(name)) for name in scripts] if data else [],  # noqa: S704
        data=Markup(embedded(data)),  # noqa: S704 -- escaped there
        **values,
    )
    write_whole(path, text)
    return path


def embedded(data: Any) -> str:
    """JSON that may stand in a <script> element, whatever texts are in it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPED)


def download(text: str, kind: str) -> str:
    """`text` as an address from which a browser can save it; `kind` such as application/yaml."""
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode('ascii')}"


def _static(name: str) -> str:
    return resources.files("results.report").joinpath("static", *name.split("/")).read_text(encoding="utf-8")
