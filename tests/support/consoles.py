"""The commands in our documentation: found in its pages, run in a project, with their output compared.

A block of a page is a fence whose first line begins with `$ `, or one marked `sh`. A comment above it gives
its use:

<!-- shown: REASON -->         it is not run <!-- elsewhere: FILE -->       it is run by that file of this
repository <!-- needs: TOOL TOOL -->      it is run where these programs are; without one, the page is
skipped, or fails if SANDWRIGHT_REQUIRE is set, as in CI

Without one it is run. A block of YAML or Python whose first line is `# NAME` is written into the project, and
one whose first line is a comment with `…` is not.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["run", "shown", "elsewhere", "file"]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- (shown|elsewhere|needs): (.+?) -->\s*\Z")
_FILE = re.compile(r"# ([\w./-]+\.(?:yaml|py|json|sb|toml))\n")


@dataclass(frozen=True)
class Command:
    """A command, and the lines that a page shows after it."""

    text: str
    shown: tuple[str, ...] = ()


@dataclass(frozen=True)
class Block:
    """A part of a page. `about` is the comment's text (a reason, a file, or programs), or a file's name."""

    page: str
    line: int
    kind: Kind
    text: str
    about: str = ""

    @property
    def needs(self) -> tuple[str, ...]:
        """The programs that it requires."""
        return tuple(self.about.split()) if self.kind == "run" else ()

    def commands(self) -> Iterator[Command]:
        """The commands, in order."""
        if not self.text.startswith("$ "):
            yield Command(self.text)
            return
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            while command.endswith("\\"):
                command += "\n" + shown.pop(0)
            yield Command(command, tuple(shown))


def blocks(page: Path, name: str) -> Iterator[Block]:
    """The blocks of a page."""
    text = page.read_text(encoding="utf-8")
    for fence in _FENCE.finditer(text):
        language, content = fence.groups()
        line = text.count("\n", 0, fence.start()) + 1
        named = _FILE.match(content)
        mark = _MARK.search(text[: fence.start()])
        if language in ("yaml", "python", "toml") and named and not (mark and mark[1] == "shown"):
            yield Block(name, line, "file", content[named.end() :], named[1])
        elif content.startswith("$ ") or language == "sh":
            yield _block(name, line, content, mark)


def _block(name: str, line: int, content: str, mark: re.Match[str] | None) -> Block:
    match mark and mark[1]:
        case "shown":
            return Block(name, line, "shown", content, mark[2] if mark else "")
        case "elsewhere":
            return Block(name, line, "elsewhere", content, mark[2] if mark else "")
        case _:
            return Block(name, line, "run", content, mark[2] if mark else "")


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    command: Command
    status: int
    output: str

    def fault(self) -> str:
        """The difference from the page; empty when there is none."""
        missing = first_missing(self.command.shown, self.output)
        if missing:
            return f"$ {self.command.text}\nshown and not printed: {missing}\nprinted:\n{self.output}"
        if self.status and not self.command.shown:
            return f"$ {self.command.text}\nended with {self.status}:\n{self.output}"
        return ""


HOME = "/home/ada/app"
"""The project's directory on our pages."""


def ran(command: Command, folder: Path, environment: Mapping[str, str], *, limit: float) -> Ran:
    """Run a command as a reader would, in a shell; its output is both streams, with `HOME` for the folder."""
    done = subprocess.run(
        ["bash", "-c", command.text],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=limit,
        check=False,
    )
    output = done.stdout.decode(errors="replace")
    for place in (f"/private{folder}", str(folder)):  # macOS would replace the second by the first
        output = output.replace(place, HOME)
    return Ran(command, done.returncode, output)


def first_missing(shown: tuple[str, ...], printed: str) -> str:
    """The first line on a page that a program did not print, in this order; empty if there is none.

    Times, digests, positions in files and the width of columns may differ, and `…` stands for anything. So
    may the number of probes in a row of `verify` where all pass: root and each listed path have some of their
    own. A program may print lines, and columns at the end of a line, that a page doesn't show.
    """
    lines = iter([_plain(line) for line in printed.splitlines()])
    for line in shown:
        wanted = _plain(line)
        if wanted in ("", "…"):
            continue
        pattern = ".*".join(re.escape(part.strip()) for part in re.split("…", wanted))
        if not any(re.fullmatch(rf"{pattern}( .*)?", each) for each in lines):
            return line
    return ""


def _plain(line: str) -> str:
    text = re.sub(r"\b[0-9]+(\.[0-9]+)? s\b", "T s", line)
    text = re.sub(r"\b[0-9a-f]{12,64}\b", "DIGEST", text)
    text = re.sub(r":[0-9]+:[0-9]+\b", ":LINE:COLUMN", text)
    text = re.sub(r"\b([1-9][0-9]*)/\1\b", "ALL", text)
    text = re.sub(r"[\s─]+", " ", text).strip()
    return re.sub(r"(?<=ALL )[0-9]+(?= 0 0)", "SUM", text)
