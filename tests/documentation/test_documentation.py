"""Every command in the README and in docs/ is run, and prints the output on the page; no table is stale.

Tests of cli/reference.py: generated tables.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.work import table

from lab import table as platforms
from sandwright import process
from sandwright.cli import reference
from sandwright.cli.commands.table import command_of
from sandwright.errors import DocumentError
from sandwright.image.cache import default_cache
from sandwright.reference import pages
from sandwright.reference.markdown import fill_generated
from support.consoles import Block, Command, blocks, first_missing, ran

ROOT = Path(__file__).parents[2]
EXAMPLE = Path(__file__).parent / "example"
BIN = Path(sys.executable).parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LIMIT = 240.0

ABOUT = {
    "build-images",
    "setup",
    "lock-images",
    "bundle",
    "launch",
    "curl",
    "python3",
    "push",
    "sbpl-eval",
    "verify",
    "cleanup",
    "secrets",
}
ABOUT |= {
    "explain",
    "lint-image",
    "sbom",
    "docker",
    "podman",
    "gvisor",
    "oci",
    "publish",
    "verify-image",
    "account-setup",
    "openssl",
    "ssh-keygen",
    "set-up",
    "release-build",
    "fleet",
    "kubectl",
}
"""Words that identify a file that runs the commands of a block."""


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


BLOCKS = {page: tuple(blocks(page, _name(page))) for page in PAGES}
ALL = [block for found in BLOCKS.values() for block in found]


@pytest.fixture
def project() -> Iterator[Path]:
    """The example project, as a person has it, with a secret; at a short path, as tables break long ones.

    A sandbox has a /tmp of its own, so the home lies outside /tmp, as people's homes do.
    """
    with tempfile.TemporaryDirectory(prefix="a", dir="/var/tmp") as home:
        (Path(home) / "run").mkdir(mode=0o700)
        folder = Path(home) / "app"
        shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / ".env").write_text("NOTES_TOKEN=d0c5\n")
        (Path(home) / ".git-credentials").write_text("https://ada:token@git.example\n")
        process.run("git", "init", "--quiet", "--initial-branch=main", folder)
        yield folder


def _environment(folder: Path, programs: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("SANDWRIGHT_TEST_RUN", "DOCKER_HOST") if name in os.environ}
    places = {"HOME": folder.parent, "XDG_RUNTIME_DIR": folder.parent / "run"}
    cache = str(default_cache(os.environ))  # the probe program is compiled once per machine
    own = {"PATH": f"{programs}:{BIN}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "SANDWRIGHT_CACHE": cache}
    if (
        programs.parent / "pyvenv.cfg"
    ).exists() and programs != BIN:  # pip installs into that environment, and downloads nothing
        own |= {
            "PIP_PYTHON": str(programs / "python3"),
            "PIP_NO_BUILD_ISOLATION": "0",
            "PIP_NO_DEPS": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
    return {**kept, **own, **{name: str(path) for name, path in places.items()}}


def _try(page: Path, folder: Path, programs: Path) -> list[str]:
    """Follow a page from its beginning, as a reader would; return the differences from the shown output."""
    faults = []
    for block in BLOCKS[page]:
        if block.kind == "file":
            target = folder / block.about
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text)
        if block.kind != "run":
            continue
        for tool in block.needs:
            if process.find(tool) is None:
                pytest.fail(f"{tool} is not installed, which {block.page}:{block.line} needs")
        for command in block.commands():
            fault = ran(command, folder, _environment(folder, programs), limit=LIMIT).fault()
            faults += [f"{block.page}:{block.line}: {fault}"] if fault else []
    return faults


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(b.kind == "run" for b in BLOCKS[page])], ids=_name
)
def test_the_commands_of_a_page_do_what_it_shows(
    page: Path, project: Path, programs: Path, environment_of_its_own: Path
) -> None:
    """The commands of the first page start as users start them; see `standby`."""
    installed = {"start.md": BIN, "extending.md": environment_of_its_own}
    for tool in {tool for block in BLOCKS[page] for tool in block.needs}:
        if process.find(tool) is None and not os.environ.get("SANDWRIGHT_REQUIRE"):
            pytest.skip(f"{tool} is not installed")
    assert "\n\n".join(_try(page, project, installed.get(page.name, programs))) == ""


@pytest.mark.parametrize(
    "block", [b for b in ALL if b.kind == "elsewhere"], ids=lambda block: f"{block.page}:{block.line}"
)
def test_what_is_run_elsewhere_is(block: Block) -> None:
    """The named file exists, and is about one of the block's tasks or programs."""
    text = (ROOT / block.about).read_text()
    if block.about == ".ci/run":
        assert "README.md" in text, "it takes its command from there"
        return
    words = {word for command in block.commands() for word in re.findall(r"[\w-]{3,}", command.text)}
    assert any(re.search(rf"\b{re.escape(word)}\b", text) for word in words & ABOUT), (
        words & ABOUT,
        block.about,
    )


OURS = {
    *("build-programs", "constraints", "lab", "lint", "test", "bench", "docs", "pytest"),
    *("hello", "sandbox.run"),
}
"""Tasks of this checkout, and of the pages' own examples, which `sandwright` doesn't have."""


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_commands_that_prose_names_exist(page: Path) -> None:
    """The commands in sentences exist, with the options named beside them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    for words in re.findall(r"`(?:sandwright|invoke) ([a-z][^`]*)`", text):
        name, *rest = words.replace("\n", " ").split(" -- ")[0].split()
        command = command_of(name)
        assert command or name in OURS, f"{name}: no such command"
        known = {each.flag for each in command.arguments} if command else set(rest)
        options = {word.partition("=")[0] for word in rest if word.startswith("--")}
        assert options <= {*known, "--help"}, words


def test_what_is_only_shown_has_a_reason() -> None:
    assert [f"{b.page}:{b.line}" for b in ALL if b.kind == "shown" and len(b.about) < 10] == []


def test_the_tables_are_what_the_code_says() -> None:
    found = pages.stale(ROOT / "docs", pages.texts() | reference.texts() | table.texts() | platforms.texts())
    assert [path.name for path in found] == [], "run `invoke docs`"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)(?:#[\w-]*)?\)", text):
        assert target.startswith("https://") or (page.parent / target).exists(), target


@pytest.mark.parametrize(
    ("shown", "printed", "missing"),
    [
        (("hello",), "hello\n", ""),
        (("hello",), "hallo\n", "hello"),
        (("a", "b"), "a\nx\nb\n", ""),
        (("b", "a"), "a\nb\n", "a"),
        (("took 1.5 s",), "took 12 s\n", ""),
        (("took 1.5 s",), "took long\n", "took 1.5 s"),
        (("id f67b367bc860",), "id 0123456789ab\n", ""),
        (("all 3 pass",), "all 2 pass\n", "all 3 pass"),
        (("bwrap 31/31 1/1 32 0 0 0",), "bwrap 33/33 1/1 34 0 0 0\n", ""),
        (("bwrap 31/31 1/1 32 0 0 0",), "bwrap 30/31 1/1 31 1 0 0\n", "bwrap 31/31 1/1 32 0 0 0"),
        (("a … z",), "a b c z\n", ""),
        (("x.py:1:2: a",), "x.py:30:40: a\n", ""),
        (("deny by",), "deny by rule\n", ""),
        (("deny by",), "deny bypassed\n", "deny by"),
        (("a … z",), "a b c\n", "a … z"),
        (("…", "z"), "a\nz\n", ""),
        ((" a   b",), "a b\n", ""),
        ((), "anything\n", ""),
    ],
)
def test_output_is_compared_loosely(shown: tuple[str, ...], printed: str, missing: str) -> None:
    assert first_missing(shown, printed) == missing


def test_a_page_that_says_something_else_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```\n$ echo one\ntwo\n$ exit 3\n$ exit 3\nshown\n```\n\n<!-- shown: not here -->\n```\n$ x\n```\n"
    )
    (block, other) = blocks(page, "page")
    assert [each.text for each in block.commands()] == ["echo one", "exit 3", "exit 3"]
    assert (other.kind, other.about) == ("shown", "not here")
    environment = {"PATH": os.environ["PATH"]}
    faults = [ran(command, tmp_path, environment, limit=60).fault() for command in block.commands()]
    assert [fault.splitlines()[1] for fault in faults] == [
        "shown and not printed: two",
        "ended with 3:",
        "shown and not printed: shown",
    ]
    assert ran(Command("echo one", ("one",)), tmp_path, environment, limit=60).fault() == ""


def test_generated_parts_are_filled_and_nothing_else() -> None:
    page = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n"
    new = fill_generated(page, {"x": "new\n"}, file="page.md")
    assert new == "a\n<!-- generated: x -->\n\nnew\n\n<!-- end -->\nb\n"
    assert fill_generated(new, {"x": "new\n"}, file="page.md") == new


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("<!-- generated: y -->\n<!-- end -->", "page.md:1:1: nothing is generated as 'y'"),
        ("<!-- generated: x -->\n", "page.md:1:1: the generated part has no <!-- end -->"),
        ("<!-- end -->\n", "page.md:1:1: a generated part begins or ends twice"),
        (
            "<!-- generated: x -->\n<!-- generated: x -->\n<!-- end -->",
            "page.md:2:1: a generated part begins or ends twice",
        ),
    ],
    ids=["unknown", "no end", "only an end", "twice"],
)
def test_what_is_no_generated_part(page: str, said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        fill_generated(page, {"x": ""}, file="page.md")
    assert str(caught.value) == said


def test_the_recording_shows_the_first_commands() -> None:
    """`python docs/pictures/record_terminal.py` records it again."""
    picture = ElementTree.fromstring((ROOT / "docs/pictures/terminal.svg").read_text())
    shown = ["".join(each.itertext()) for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    first = next(block for block in BLOCKS[ROOT / "README.md"] if block.kind == "run")
    assert [line[2:] for line in shown if line.startswith("$ ")] == [each.text for each in first.commands()]
    printed = [line for each in first.commands() for line in each.shown]
    assert [line for line in shown if not line.startswith("$ ")] == [
        line.replace("…", "/home/ada") for line in printed
    ]
