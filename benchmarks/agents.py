"""Starts coding agents, each on a terminal of its own, up to their first screens.

    python -m benchmarks.agents [--method bwrap,docker] [--agent claude,gemini] [--output FILE]

Each agent that is installed is started in a new repository: outside, where its home is an empty directory,
and with each method by the one command of docs/agents.md. A cell is `ok` when what a person sees is the
agent's first screen; `offline` when the agent says that it reaches no service, and outside it says so too.
Start it as a new account, since agents show other screens to whom they know. It takes tmux, engines that
answer, and for methods with an image `sandwright build-images --name dev --name proxy`.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from benchmarks.harness import RESULTS, machine

AGENTS = Path(__file__).with_name("work") / "agents.yaml"
OUTSIDE = "outside"
METHODS = ("bwrap", "docker", "podman", "oci", "gvisor")
LIMIT = 300.0
"""Seconds for a screen; an image is unpacked or loaded meanwhile where that hasn't been done."""
SIZE = ("110", "36")
SHOWN = 40
"""Lines of a screen that are kept."""
_ENDED = "the command ended: "


@dataclass(frozen=True)
class Cell:
    """What came of one start: `ok`, `offline` or `failed`, and the lines of the last screen."""

    agent: str
    version: str
    method: str
    user: str
    verdict: str
    seconds: float
    screen: Sequence[str]


def main() -> None:
    """Run it: print the table and write it as JSON. Exit with 1 when a cell is red."""
    words = _arguments()
    known = yaml.safe_load(AGENTS.read_text())
    chosen = [each for each in words.agent.split(",") if each] or list(known)
    cells: list[Cell] = []
    for agent in chosen:
        if shutil.which(agent) is None:
            print(f"{agent} is left out: not installed")
            continue
        for cell in _agent(agent, known[agent], words.method.split(",")):
            cells.append(cell)
            print(f"{cell.agent} {cell.method}: {cell.verdict} {cell.seconds:.0f} s", flush=True)
            if cell.verdict == "failed":
                print("\n".join(f"    {line}" for line in cell.screen))
            _write(words.output, cells)
    print(_table(cells))
    if any(cell.verdict == "failed" for cell in cells):
        sys.exit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agent", default="", help="agents, comma-separated (default: all)")
    parser.add_argument("--method", default=",".join(METHODS), help="methods, comma-separated")
    parser.add_argument("--output", type=Path, default=RESULTS / "agents.json")
    return parser.parse_args()


def _agent(agent: str, known: Mapping[str, Any], methods: Sequence[str]) -> Iterator[Cell]:
    """The cells of one agent. Only where it is offline outside may it be so inside."""
    version = _version(agent)
    offline = False
    for method in (OUTSIDE, *methods):
        with _folder() as folder:
            project = Path(folder, "project")
            home, terminal = Path(folder, "home"), Path(folder, "tmux")
            home.mkdir()
            subprocess.run(["git", "init", "-q", project], check=True, timeout=60)
            started = time.monotonic()
            found, screen = _screen(_command(agent, known, method, home), project, known, terminal)
        if method == OUTSIDE:
            offline = found == "offline"
        elif found == "offline" and not offline:
            found = "failed"
        seconds = time.monotonic() - started
        yield Cell(agent, version, method, getpass.getuser(), found, seconds, screen)


def _folder() -> tempfile.TemporaryDirectory[str]:
    """In the home: what is below /tmp is not seen inside."""
    return tempfile.TemporaryDirectory(
        dir=Path.home(), prefix="sandwright-agent-", ignore_cleanup_errors=True
    )


def _version(agent: str) -> str:
    said = subprocess.run([agent, "--version"], capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r"\d+\.\d+\.\d+\S*", said.stdout)
    return found[0] if found else "?"


def _command(agent: str, known: Mapping[str, Any], method: str, home: Path) -> list[str]:
    own = [agent, *known.get("words", {}).get(method, ())]
    if method == OUTSIDE:
        return ["env", f"HOME={home}", *own]
    run = [sys.executable, "-P", "-c", "from sandwright.cli import main; main()", "run"]
    return [*run, "--method", method, "--preset", f"agent-{agent}", "--", *own]


def _screen(
    command: Sequence[str], project: Path, known: Mapping[str, Any], server: Path
) -> tuple[str, list[str]]:
    """Start it on a terminal, and look until what is shown is known, or nothing more comes."""
    line = f"{shlex.join(command)}; echo '{_ENDED}'$?; sleep {LIMIT + 30:.0f}"
    size = ("-x", SIZE[0], "-y", SIZE[1])
    try:
        _tmux(server, "-f", os.devnull, "new-session", "-d", *size, "-c", os.fspath(project), line)
        until, last = time.monotonic() + LIMIT, None
        while True:
            time.sleep(0.5)
            shown = _tmux(server, "capture-pane", "-p")
            lines = [each.rstrip() for each in shown.splitlines() if each.strip()][-SHOWN:]
            for verdict, pattern in (("ok", known["screen"]), ("offline", known.get("offline", "(?!)"))):
                if re.search(pattern, shown):
                    return verdict, lines
            if time.monotonic() > until or (_ENDED in shown and lines == last):
                return "failed", lines
            last = lines
    finally:
        subprocess.run(["tmux", "-S", server, "kill-server"], capture_output=True, timeout=60, check=False)
        time.sleep(2)  # what it hung up on may be writing yet


def _tmux(server: Path, *words: str) -> str:
    argv = ["tmux", "-S", os.fspath(server), *words]
    return subprocess.run(argv, check=True, timeout=60, capture_output=True, text=True).stdout


def _write(output: Path, cells: Sequence[Cell]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    figures = {"machine": machine(), "cells": [asdict(cell) for cell in cells]}
    output.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _table(cells: Sequence[Cell]) -> str:
    """A row for each agent and a column for each method, as docs/agents.md has it."""
    columns = list(dict.fromkeys(cell.method for cell in cells))
    lines = [f"| agent | version | {' | '.join(columns)} |", f"|---|---{'|---' * len(columns)}|"]
    for agent in dict.fromkeys(cell.agent for cell in cells):
        own = {cell.method: cell for cell in cells if cell.agent == agent}
        version = next(iter(own.values())).version
        row = [own[column].verdict if column in own else "-" for column in columns]
        lines.append(f"| `{agent}` | {version} | {' | '.join(row)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
