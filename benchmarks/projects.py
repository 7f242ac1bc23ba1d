"""Works in real projects inside every method: gets dependencies, builds, tests, commits and runs them.

    python -m benchmarks.projects [--method bwrap,podman] [--project redis] [--sources DIR]

Each project is worked on with each method, in copies; before that outside, unless it is known what its
tests say there, or they are left out. A step is done when it succeeds inside; the tests have to say
inside what they say outside, and the commit has to be on the host. Whoever starts it is the user: start
it as root and as somebody else. The figures of several starts with one `--output` are one table; those of
docs/probes.md are kept by `python -m benchmarks.work.table RESULTS.json ...` and written by `invoke docs`.
Image methods take the image `dev`, which has to be built: `sandwright build-images --name dev`.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from benchmarks.harness import RESULTS, machine
from benchmarks.work.sources import SourceError, sources
from benchmarks.work.steps import LIMIT, OUTSIDE, REVIEW, SANDWRIGHT, Cell, Project, discard, take

from sandwright.engines.daemon import own_daemon
from sandwright.engines.docker import ADDRESS, answers

PROJECTS = Path(__file__).with_name("work") / "projects.yaml"
METHODS = ("bwrap", "docker", "podman", "oci", "gvisor") if os.geteuid() == 0 else ("bwrap", "podman")
STEPS = ("deps", "build", "test", "commit", "serve")
ACCEPTED = {"landlock": ("filesystem.protect", "filesystem.attributes", "process.kernel")}
"""What a method can't do and the policy has to accept, so that it is tried at all."""


def main() -> None:
    """Run it: print the table and write it as JSON. Exit with 1 when a cell is red."""
    words = _arguments()
    known = [Project(name=name, **each) for name, each in yaml.safe_load(PROJECTS.read_text()).items()]
    chosen = [each for each in known if not words.project or each.name in words.project.split(",")]
    cells = _recorded(words.output)
    with contextlib.ExitStack() as stack:
        methods = [each for each in words.method.split(",") if each]
        if "docker" in methods and os.geteuid() == 0 and shutil.which("dockerd") and not answers(None):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandwright-dockerd-")))
            os.environ[ADDRESS] = stack.enter_context(own_daemon(folder))
        work = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="sandwright-work-", dir=words.work))
        )
        for project in chosen:
            told = cells.get((project.name, getpass.getuser(), OUTSIDE, "test"))
            known_outside = (told and told.found) or "test" not in words.steps.split(",")
            own = methods if known_outside else [OUTSIDE, *(m for m in methods if m != OUTSIDE)]
            for cell in _project(project, own, words, work, told.found if told else ""):
                cells = _recorded(words.output) | {cell.key: cell}  # others may write it meanwhile
                print(
                    f"{cell.project} {cell.method} {cell.step}: {cell.verdict} {cell.seconds:.1f} s",
                    flush=True,
                )
                _write(words.output, cells)
    print(_table(cells))
    if any(cell.verdict in {"failed", "differs"} for cell in cells.values()):
        sys.exit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--project", default="", help="projects, comma-separated (default: all)")
    parser.add_argument("--method", default=",".join(METHODS), help="methods, comma-separated")
    parser.add_argument("--steps", default=",".join(STEPS), help="steps, comma-separated")
    parser.add_argument("--sources", type=Path, default=RESULTS / "sources", help="where sources are kept")
    parser.add_argument("--work", type=Path, default=None, help="where the copies are made (default: /tmp)")
    parser.add_argument("--limit", type=int, default=LIMIT, help="seconds for a step (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=RESULTS / "projects.json")
    return parser.parse_args()


def _project(
    project: Project, methods: Sequence[str], words: argparse.Namespace, work: Path, expected: str
) -> Iterator[Cell]:
    """The cells of one project. `expected` is what its tests said outside, unless that is tried anew."""
    missing = [each for each in project.needs if shutil.which(each) is None]
    try:
        if missing:
            raise SourceError(f"{', '.join(missing)} not installed")
        origin = sources(project.name, project.source, words.sources)
    except SourceError as error:
        print(f"{project.name} is left out: {error}")
        return
    for method in methods:
        place = _copied(project, method, origin, work)
        with _account(place) if method == "user" else contextlib.nullcontext():
            for step in (each for each in STEPS if each in words.steps.split(",")):
                cell = take(project, method, step, place, expected, limit=words.limit)
                if method == OUTSIDE and step == "test":
                    expected = cell.found
                yield cell
        if method.endswith(REVIEW):
            discard(place)
        shutil.rmtree(place.parent, ignore_errors=True)


@contextlib.contextmanager
def _account(place: Path) -> Iterator[None]:
    """The account that works in a project, and which that is shared with."""
    try:
        subprocess.run([*SANDWRIGHT, "account-setup", "--yes"], cwd=place, check=True, timeout=120)
        yield
    finally:
        subprocess.run([*SANDWRIGHT, "account-remove", "--yes"], cwd=place, check=True, timeout=120)


def _copied(project: Project, method: str, origin: Path, work: Path) -> Path:
    """A repository of a project's sources, with a policy in it as people write one."""
    place = work / method.replace(" ", "-") / project.name
    shutil.copytree(origin, place, symlinks=True)
    own = method.removesuffix(REVIEW)
    policy = {
        "schema": 1,
        "method": own,
        "workspace": "review" if method.endswith(REVIEW) else "live",
        "image": "dev",
        "extends": ["build"],
        "filesystem": {"read": ["...", "~/.gitconfig"]},  # who commits, which no container knows
        "environment": {"set": _IDENTITY if method == "user" else {}},  # whose home is the account's own
        "cache": list(project.cache),
        "accept_gaps": [
            {"feature": feature, "method": own, "reason": "what is made here is thrown away"}
            for feature in ACCEPTED.get(own, ())
        ],
    }
    (place / "sandbox.yaml").write_text(yaml.safe_dump(policy, sort_keys=False))
    for argv in (["init", "-q"], ["add", "-A", "-f"], ["commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", *_WHO, *argv], cwd=place, check=True, timeout=60)
    return place


_NAME, _ADDRESS = "A Person", "person@example.org"
_WHO = ("-c", f"user.name={_NAME}", "-c", f"user.email={_ADDRESS}")
_IDENTITY = {
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), _NAME),
    **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), _ADDRESS),
}


def _recorded(output: Path) -> dict[tuple[str, str, str, str], Cell]:
    try:
        cells = [Cell(**each) for each in json.loads(output.read_text())["cells"]]
    except OSError:
        return {}
    return {cell.key: cell for cell in cells}


def _write(output: Path, cells: Mapping[Any, Cell]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    figures = {"machine": machine(), "cells": [asdict(cell) for cell in cells.values()]}
    beside = output.with_name(f"{output.name}.new")
    beside.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    beside.replace(output)


def _table(cells: Mapping[Any, Cell]) -> str:
    """A row for each project and a column for each user and method: the steps that are not ok, by name.

    In Markdown, as documentation has it.
    """
    columns = list(dict.fromkeys((cell.user, cell.method) for cell in cells.values()))
    rows = list(dict.fromkeys(cell.project for cell in cells.values()))
    lines = [["project", *(f"{method} ({user})" for user, method in columns)]]
    for row in rows:
        line = [row]
        for user, method in columns:
            own = [c for c in cells.values() if (c.project, c.user, c.method) == (row, user, method)]
            bad = [f"{c.step} {c.verdict}" for c in own if c.verdict != "ok"]
            line.append("; ".join(bad) or (f"{len(own)} ok" if own else "-"))
        lines.append(line)
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
