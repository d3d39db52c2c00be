"""What the documents name is there: files, links, sections, modules, commands and their options."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import typer
from ruamel.yaml import YAML

from controller.main import main as controller
from controller.trial import trial_snapshot
from echelon import benchmarks
from echelon.cli.main import app
from echelon.places import ROOT
from echelonflow.model import topologies
from echelonflow.records.folder import RunFiles, RunFolder
from echelonflow.scheduling import policies

PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))]  # fmt: skip
EXAMPLES = {"mine.py", "plot.py", "training.yaml", "job.json", "experiment.yaml", "sweep.yaml"}
"""Files that a reader is told to make, or finds in a folder of results."""
RUN_FOLDER = "DIR/"
"""What begins so is in a run's folder, not in the repository."""
SOURCE = (".py", ".md", ".sh", ".toml", ".cfg", ".cff", ".yaml")

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"^(?: {4,})(?![-*|])(\S.*)$", re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_MODULE = re.compile(r"[a-z_]+(?:\.[A-Za-z_]+)+")
_CITED = re.compile(r'docs/(\w+)\.md, "([^"\n]+)"')
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_PACKAGES = ("echelonflow", "simulator", "controller", "traffic", "testbed", "results", "echelon")


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def lines_of_code(text: str) -> list[str]:
    """Lines of code blocks that a shell would take, continued ones joined."""
    blocks = [body for language, body in _FENCED.findall(text) if language in ("", "sh", "bash", "console")]
    found = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [*found, *_INDENTED.findall(_FENCED.sub("", text))]


def code(text: str) -> list[str]:
    """Spans and lines of code of a page."""
    return [*lines_of_code(text), *_SPAN.findall(_FENCED.sub("", text))]


def words(line: str) -> list[str]:
    """The words of a command, without its comment; none where it is not a command."""
    try:
        return shlex.split(line.partition("  #")[0].partition(" # ")[0])
    except ValueError:
        return []


@cache
def files() -> tuple[Path, ...]:
    """Every file of the repository, relative to it."""
    skipped = {".git", ".venv", "build", "runs"}
    return tuple(
        path.relative_to(ROOT)
        for folder in sorted(ROOT.iterdir())
        if folder.name not in skipped and not folder.name.endswith(("_cache", ".egg-info"))
        for path in ([folder] if folder.is_file() else folder.rglob("*"))
        if not skipped & set(path.relative_to(ROOT).parts)
    )


def named_paths(text: str) -> Iterator[str]:
    """Words in code that look like a path in this repository."""
    tops = {path.parts[0] for path in files()}
    for line in code(text):
        for word in re.split(r"[\s'\",;()=]+", line):
            path = word.removeprefix("./").rstrip(":.")
            if (
                not path
                or re.search(r"[<>{}$|\\…`]|\.\.", path)
                or path.startswith((RUN_FOLDER, "http", "results/runs"))
            ):
                continue
            first, slash, _ = path.partition("/")
            if (slash and first in tops) or (path.endswith(SOURCE) and not path.startswith(("/", "*"))):
                yield path


def is_there(path: str, page: str) -> bool:
    """Whether `path` is in the repository, beside the page, or ends the path of a file that is."""
    if path in EXAMPLES:
        return True
    near = (ROOT, (ROOT / page).parent)
    return any(any(folder.glob(path.rstrip("/"))) for folder in near) or any(
        f"/{file.as_posix()}".endswith(f"/{path}") for file in files()
    )


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_named_are_there(page):
    missing = sorted({path for path in named_paths(read(page)) if not is_there(path, page)})
    assert not missing, f"{page} names what is not in the repository: {', '.join(missing)}"


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for link in _LINK.findall(read(page)):
        if link.startswith("http"):
            continue
        target, _, section = link.partition("#")
        path = (ROOT / page).parent / target if target else ROOT / page
        assert path.exists(), f"{page} links to {link}, which is not there"
        if section:
            assert section in anchors(path), f"{page} links to {link}, a section that is not there"


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as they are made where the page is shown."""
    headings = _HEADING.findall(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_page_of_documentation_is_linked_from_where_a_reader_begins():
    linked = {link.partition("#")[0] for link in _LINK.findall(read("README.md"))}
    assert {page for page in PAGES if page.startswith("docs/")} <= linked


def test_the_policy_in_the_readme_is_a_policy_file(tmp_path):
    """It is loaded as a user's file is, and decides as `fair` does."""
    (body,) = (body for language, body in _FENCED.findall(read("README.md")) if language == "python")
    path = tmp_path / "mine.py"
    path.write_text(body, encoding="utf-8")
    snapshot = trial_snapshot(topologies.build("single-switch", {"hosts": 4, "rate_bps": 100e6}))
    own, fair = policies.load(str(path))(snapshot), policies.load("fair")(snapshot)
    assert np.array_equal(own.rates_Bps, fair.rates_Bps)
    assert np.array_equal(own.rank, fair.rank)


def commands(text: str) -> Iterator[list[str]]:
    """Words after `echelon` of every command that a page names."""
    for line in code(text):
        found = words(line)
        for place, word in enumerate(found[:3]):
            if word.removeprefix(".venv/bin/") == "echelon" and len(found) > place + 1:
                yield found[place + 1 :]
                break


@cache
def options_of(command: str) -> set[str]:
    """Every way to write an option of one of echelon's commands."""
    group = typer.main.get_command(app)
    chosen = group.commands[command]  # type: ignore[attr-defined]
    own = {name for parameter in chosen.params for name in (*parameter.opts, *parameter.secondary_opts)}
    return own | (options_of_controller() if command == "controller" else set()) | {"--help", "-h"}


def options_of_controller() -> set[str]:
    """Options of `python -m controller.main`, to which `echelon controller` passes its own on."""
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        controller(["--help"])
    return set(re.findall(r"--[a-z-]+", shown.getvalue()))


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_options_that_are_named_are_there(page):
    known = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    for command, *rest in commands(read(page)):
        if command in ("--help", "--version"):
            continue
        assert command in known, f"{page}: echelon has no command {command!r}"
        for option in (word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)):
            assert option in options_of(command), f"{page}: echelon {command} has no option {option}"
        if command == "bench":
            names = [word for word in rest if re.fullmatch(r"[a-z][a-z-]+", word)]
            assert names[:1] == [] or names[0] in benchmarks.names(), f"{page}: there is no benchmark {names[0]!r}"


@pytest.mark.parametrize("page", PAGES)
def test_scripts_know_the_options_that_are_named(page):
    for line in code(read(page)):
        found = words(line)
        if found and re.fullmatch(r"(\./)?scripts/[\w-]+\.sh", found[0]):
            script = read(found[0].removeprefix("./"))
            for option in (word for word in found[1:] if word.startswith("--")):
                assert f"{option})" in script, f"{page}: {found[0]} has no option {option}"


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or what a module or its class holds."""
    module: ModuleType | None = None
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        if importlib.util.find_spec(parts[0]) is None:
            return False
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        break
    held: object = module
    for part in parts[length:]:
        if not hasattr(held, part):
            return part in getattr(held, "__annotations__", {})
        held = getattr(held, part)
    return module is not None


@pytest.mark.parametrize("page", PAGES)
def test_modules_that_are_named_are_there(page):
    text = read(page)
    spans = [name for span in _SPAN.findall(text) for name in [span.partition("(")[0]] if _MODULE.fullmatch(name)]
    run = re.findall(r"python -m ([\w.]+)", text)
    for name in {name for name in [*spans, *run] if name.partition(".")[0] in _PACKAGES and not name.endswith(SOURCE)}:
        assert resolves(name), f"{page} names {name}, which is not there"


def test_sections_that_the_code_cites_are_there():
    cited = [
        (path, *citation)
        for path in files()
        if path.suffix == ".py"
        for citation in _CITED.findall((ROOT / path).read_text(encoding="utf-8"))
    ]
    assert cited
    for path, page, section in cited:
        headings = _HEADING.findall(read(f"docs/{page}.md"))
        assert section in headings, f"{path} cites docs/{page}.md, {section!r}: there is no such section"


def test_what_is_not_there_is_noticed():
    page = "See `simulator/gone.py`, `fill.py`, `echelon flown x`.\n\n    .venv/bin/echelon run experiments/*.yaml --frob\n"
    assert [path for path in named_paths(page) if not is_there(path, "README.md")] == ["simulator/gone.py"]
    assert list(commands(page)) == [["run", "experiments/*.yaml", "--frob"], ["flown", "x"]]
    assert "--frob" not in options_of("run")
    assert resolves("echelonflow.model.dag.JobDag")
    assert not resolves("echelonflow.model.gone")


def test_the_run_folder_is_described_as_it_is():
    """Every file of a run folder is named in ARCHITECTURE.md, under "One emulated run"."""
    section = read("ARCHITECTURE.md").partition("\n## One emulated run\n")[2].partition("\n## ")[0]
    root = Path("DIR")
    for paths in (RunFolder(root), RunFiles(root)):
        for name, kind in vars(type(paths)).items():
            if isinstance(kind, property):
                path = getattr(paths, name)
                assert path.name in section, f"{type(paths).__name__}.{name}: {path.name} is not named"


def test_the_citation_is_of_this_version_and_names_the_paper():
    citation = YAML(typ="safe", pure=True).load(read("CITATION.cff"))
    assert f'version="{citation["version"]}"' in read("setup.py")
    (paper,) = citation["references"]
    assert f"https://doi.org/{paper['doi']}" in read("README.md")
    authors = ", ".join(f"{author['given-names']} {author['family-names']}" for author in paper["authors"])
    assert f'{authors}. "{paper["title"]}"' in " ".join(read("README.md").replace("\n> ", " ").split())
