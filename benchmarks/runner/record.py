"""Stands in for bwrap, runc, runsc, docker or podman on a PATH, and writes down how it was started.

It is called by the program's name; beside it lies `recorded.json`, with the directory to write to and the
real program. A start of a sandbox is written to `started.json` there: the words, with those that bwrap reads
from descriptors in their place; the environment; copies of the filter, of the bundle, and of the project with
what was put into it for the run. All else is passed on.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

DROPPED = {"--block-fd", "--json-status-fd", "--info-fd", "--sync-fd", "--userns-block-fd", "--lock-file"}
"""Options of bwrap, with their value, by which a launcher talks to it."""


def main() -> None:
    """Write it down."""
    name = Path(sys.argv[0]).name
    told = json.loads(Path(sys.argv[0]).with_name("recorded.json").read_text())
    to = Path(told["to"])
    words = sys.argv[1:]
    if name == "bwrap" and (to / "started.json").exists():
        sys.exit(1)  # a launcher that finds out why nothing was run
    found = {"words": words, "environment": dict(os.environ), "cwd": str(Path.cwd())}
    if name == "bwrap":
        found["words"] = _bwrap(words, to)
    elif "run" not in words:
        os.execv(told["program"], [told["program"], *words])
    elif "--bundle" in words:
        bundle = words[words.index("--bundle") + 1]
        shutil.copytree(f"{bundle}/rootfs", to / "bundle" / "rootfs", symlinks=True)
        shutil.copy(f"{bundle}/config.json", to / "bundle" / "config.json")
    shutil.copytree(told["project"], to / "project", symlinks=True)
    (to / "started.json").write_text(json.dumps(found))
    if name != "bwrap":
        os.execv(told["program"], [told["program"], *words])
    sys.exit(1)


def _bwrap(words: list[str], to: Path) -> list[str]:
    taken: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            if waiting[1:2] in (["--backstop"], ["--confine"], ["--init"]):  # our own programs
                del waiting[: waiting.index("--init") + 2]
            return [*taken, word, *waiting]
        if word == "--args":
            given = _read(waiting.pop(0)).split(b"\0")[:-1]
            waiting = [*map(os.fsdecode, given), *waiting]
        elif word in DROPPED:
            waiting.pop(0)
        elif word == "--file":
            (to / f"file-{waiting[0]}").write_bytes(_read(waiting[0]))
            taken += [word, waiting.pop(0)]
        elif word == "--seccomp":
            (to / "seccomp.bpf").write_bytes(_read(waiting.pop(0)))
        else:
            taken.append(word)
    return taken


def _read(descriptor: str) -> bytes:
    with os.fdopen(int(descriptor), "rb") as file:
        return file.read()


main()
