"""How fast a review workspace starts, works, copies a project, finds changes, applies and undoes them.

    python -m benchmarks.workspace [--only PART,…] [--files N] [--rounds N] [--output results.json]

`start` starts `true` in a project of 200 files with bwrap, without and with a review, and in a review after
400 runs that changed files. `workflow` clones, installs, builds, tests, edits and commits a project of Flask
and Lua in one run without a network, live and in a new review; `benchmarks.work.sources` gets the sources.
The other parts compare with cp, diff and rsync in a project of N files of 200 bytes, 100 in a directory;
`changes` finds 1,000 changed files. All is on tmpfs, without a disk's noise. Each round of
sandwright starts Python, except for a live run, and its figures include that.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import yaml
from benchmarks.harness import RESULTS, Contestant, Result, compare, record, table, write
from benchmarks.work.sources import sources

OURS = """\
import sys
from sandwright.workspace import applying, changes, copying, store, undo
workspace = store.workspace_of(sys.argv[1], "bench")
action = sys.argv[2]
if action in ("copy", "refresh"):
    copying.refresh(workspace, lambda _: False)
elif action == "undo":
    undo.undo(workspace, 1)
else:
    found = changes.changes(workspace)
    if action == "apply":
        assert not applying.apply(workspace, found, 1).conflicts
"""

STARTS = 15
"""Rounds of starts, which are short."""

STACKED = 400
"""Earlier runs in the same workspace, each of which changed a file."""

WHEELS = ("flask", "pytest<9", "asgiref", "greenlet", "python-dotenv", "flit_core<4")
LUA_TEST = "local t = {} for i = 1, 200000 do t[i] = i * i end assert(t[300] == 90000)"
WORKFLOW = f"""\
export PIP_NO_INDEX=1 PIP_FIND_LINKS="$PWD/wheels"
git clone -q origin.git work
cd work
{sys.executable} -m venv .venv
.venv/bin/pip install -q -e . 'pytest<9' asgiref greenlet python-dotenv
make -s -j2 -C lua linux >/dev/null
.venv/bin/python -m pytest -q tests -k 'not bad_environ'
lua/src/lua -e '{LUA_TEST}'
for file in lua/src/l*.c src/flask/*.py; do sed -i '1s/^/\\n/' $file; done
make -s -j2 -C lua linux >/dev/null
.venv/bin/python -m pytest -q tests/test_basic.py
git add -A
git -c user.name=Person -c user.email=person@example.org commit -q -m Edit
git status --short
"""


def _make_project(root: Path, files: int) -> None:
    for number in range(files):
        if number % 100 == 0:
            (root / str(number // 100)).mkdir(parents=True)
        (root / str(number // 100) / f"f{number % 100}").write_bytes(b"%d\n" % number * 40)


class _Scene:
    """A project, a copy of it that cp made, and a home."""

    def __init__(self, root: Path, files: int) -> None:
        self.root = root
        self.files = files
        self.project, self.same, self.other = root / "project", root / "same", root / "other"
        os.environ["HOME"] = str(root / "home")
        _make_project(self.same, files)

    def ours(self, action: str) -> tuple[str, ...]:
        """The command line of one action."""
        return (sys.executable, "-c", OURS, str(self.project), action)

    def clear(self) -> None:
        """No project, copy or workspace."""
        for path in (self.project, self.other, self.root / "home"):
            shutil.rmtree(path, ignore_errors=True)

    def with_project(self) -> None:
        """The project alone."""
        self.clear()
        shutil.copytree(self.same, self.project)

    def copied(self) -> None:
        """The project and its copies."""
        self.with_project()
        shutil.copytree(self.same, self.other)
        compare([Contestant("copy", self.ours("copy"))], rounds=1)

    def changed(self, count: int) -> None:
        """In which some files were changed."""
        self.copied()
        for tree in (self._tree(), self.other):
            for number in range(0, self.files, max(1, self.files // count)):
                with (tree / str(number // 100) / f"f{number % 100}").open("ab") as file:
                    file.write(b"more")

    def emptied(self) -> None:
        """A project without files, and copies that have all of them."""
        self.clear()
        self.project.mkdir()
        compare([Contestant("copy", self.ours("copy"))], rounds=1)
        shutil.rmtree(self._tree())
        for tree in (self._tree(), self.other):
            shutil.copytree(self.same, tree)

    def applied(self) -> None:
        """The same, applied."""
        self.emptied()
        compare([Contestant("apply", self.ours("apply"))], rounds=1)

    def _tree(self) -> Path:
        (found,) = (self.root / "home").glob(".local/state/sandwright/workspaces/*/bench")
        return found / "tree"


def _contests(scene: _Scene) -> dict[str, tuple[str, list[Contestant]]]:
    """For each title the reference and the contestants."""
    ours, project = scene.ours, str(scene.project)
    rsync = ("rsync", "-a", "--delete", f"{scene.other}/", f"{project}/")
    with_rsync = shutil.which("rsync") is not None
    copy = [
        Contestant("cp -a", ("cp", "-a", project, str(scene.other)), scene.with_project),
        Contestant("refresh, first", ours("copy"), scene.with_project),
    ]
    again = [
        Contestant("cp -au", ("cp", "-au", f"{project}/.", f"{scene.other}/"), scene.copied),
        Contestant("refresh, nothing new", ours("refresh"), scene.copied),
    ]
    changed = [
        Contestant(
            "diff -rq", ("sh", "-c", f"diff -rq {project} {scene.other}; :"), partial(scene.changed, 1000)
        ),
        Contestant("changes", ours("changes"), partial(scene.changed, 1000)),
    ]
    some = [
        Contestant("cp -au", ("cp", "-au", f"{scene.other}/.", f"{project}/"), partial(scene.changed, 1000)),
        Contestant("apply 1,000", ours("apply"), partial(scene.changed, 1000)),
    ]
    every = [
        Contestant("cp -a", ("cp", "-a", f"{scene.other}/.", f"{project}/"), scene.emptied),
        Contestant("apply all", ours("apply"), scene.emptied),
        Contestant("undo all", ours("undo"), scene.applied),
    ]
    if with_rsync:
        some.append(Contestant("rsync -a", rsync, partial(scene.changed, 1000)))
        every.append(Contestant("rsync -a", rsync, scene.emptied))
    return {
        "copy": ("cp -a", copy),
        "copy again": ("cp -au", again),
        "changes": ("diff -rq", changed),
        "apply 1,000 changes": ("cp -au", some),
        "apply new files": ("cp -a", every),
    }


def _sandwright(project: Path, *words: str) -> tuple[str, ...]:
    """The command line of the installed command in a project."""
    return ("env", "-C", str(project), str(Path(sys.executable).with_name("sandwright")), *words)


def _write_policy(project: Path, workspace: str) -> Path:
    """A project's policy. The project's first run renders its sandbox."""
    policy = {"schema": 1, "method": "bwrap", "workspace": workspace}
    (project / "sandbox.yaml").write_text(yaml.safe_dump(policy))
    subprocess.run(_sandwright(project, "run", "--", "true"), check=True, timeout=60)
    return project


def _starts(root: Path) -> list[Contestant]:
    """Starts of `true`: by the native command, by Python, in a review, and in one after many runs."""
    found = {}
    for name in ("live", "review", "stacked"):
        _make_project(root / name, 200)
        found[name] = _write_policy(root / name, "live" if name == "live" else "review")
    for number in range(STACKED):
        words = _sandwright(found["stacked"], "run", "--", "touch", f"run{number}")
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL, timeout=60)
    denials = _sandwright(found["live"], "run", "--denials", str(root / "denials"), "--", "true")
    return [
        Contestant("live", _sandwright(found["live"], "run", "--", "true")),
        Contestant("live, supervised by Python", denials, partial(_remove, root / "denials")),
        Contestant("review", _sandwright(found["review"], "run", "--", "true")),
        Contestant(f"review after {STACKED} runs", _sandwright(found["stacked"], "run", "--", "true")),
    ]


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _workflows(root: Path) -> list[Contestant]:
    """The same workflow live and in a new review, in which the project is copied first."""
    origin, wheels = _origin(root)
    found = []
    for name in ("live", "review"):
        project = root / name
        project.mkdir()
        for source in (origin, wheels):
            shutil.copytree(source, project / source.name)
        _write_policy(project, name)
        clear = partial(shutil.rmtree, project / "work", ignore_errors=True)
        before: Callable[[], None] = clear if name == "live" else partial(_discard, project)
        found.append(Contestant(name, _sandwright(project, "run", "--", "sh", "-ec", WORKFLOW), before))
    return found


def _discard(project: Path) -> None:
    subprocess.run(_sandwright(project, "discard", "--yes"), check=False, capture_output=True, timeout=60)


def _origin(root: Path) -> tuple[Path, Path]:
    """A bare repository of Flask with Lua, and the wheels that it needs."""
    known = yaml.safe_load(Path(__file__).with_name("work").joinpath("projects.yaml").read_text())
    flask, lua = (sources(name, known[name]["source"], RESULTS / "sources") for name in ("flask", "lua"))
    shutil.copytree(flask, root / "plain", symlinks=True)
    shutil.copytree(lua, root / "plain" / "lua", symlinks=True)
    for words in (
        ("git", "init", "-q"),
        ("git", "add", "-A", "-f"),
        ("git", "-c", "user.name=P", "-c", "user.email=p@example.org", "commit", "-q", "-m", "Begin"),
        ("git", "clone", "-q", "--bare", ".", str(root / "origin.git")),
        (sys.executable, "-m", "pip", "download", "-q", "-d", str(root / "wheels"), *WHEELS),
    ):
        subprocess.run(words, cwd=root / "plain", check=True, timeout=300)
    return root / "origin.git", root / "wheels"


def _copies(root: Path, files: int, rounds: int) -> Iterator[tuple[str, str, list[Result]]]:
    """The title, the reference and the results of each comparison of copies."""
    scene = _Scene(root, files)
    for title, (reference, contestants) in _contests(scene).items():
        yield f"{title}, {files} files", reference, compare(contestants, rounds=rounds)
    scene.clear()


def _measured(
    only: Sequence[str], files: int, rounds: int, scratch: Path
) -> Iterator[tuple[str, str, list[Result]]]:
    for part in only:
        with tempfile.TemporaryDirectory(dir=scratch, prefix="workspace-") as folder:
            root = Path(folder)
            os.environ |= {"HOME": str(root / "home"), "XDG_RUNTIME_DIR": folder}
            if part == "start":
                yield "start of `true`", "live", compare(_starts(root), rounds=STARTS)
            elif part == "workflow":
                yield "development workflow", "live", compare(_workflows(root), rounds=rounds)
            else:
                yield from _copies(root, files, rounds)


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="start,workflow,copies", help="parts, comma-separated")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS / "workspace.json")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"))
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every start compiles what has changed
    found = {}
    parts = options.only.split(",")
    for title, reference, results in _measured(parts, options.files, options.rounds, options.scratch):
        print(table(title, results, reference=reference), flush=True)
        found[title] = record(results)
    write(options.output, found)


if __name__ == "__main__":
    main()
