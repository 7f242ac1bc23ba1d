"""How fast a review workspace copies a project, finds changes, applies and undoes them, beside cp and rsync.

    python -m benchmarks.workspace [--files N] [--rounds N] [--output results.json] [--scratch /dev/shm]

The project has N files of 200 bytes, 100 in a directory, on tmpfs, without a disk's noise.
Each round of sandwright starts Python, and its figures include that. `changes` finds 1,000 changed files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.harness import RESULTS, Contestant, compare, record, table, write

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


def main() -> None:
    """Measure, print, and write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=RESULTS / "workspace.json")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"))
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory(dir=options.scratch, prefix="workspace-") as root:
        scene = _Scene(Path(root), options.files)
        for title, (reference, contestants) in _contests(scene).items():
            results = compare(contestants, rounds=options.rounds)
            print(table(f"{title}, {options.files} files", results, reference=reference))
            found[title] = results
        scene.clear()
    write(options.output, {title: record(results) for title, results in found.items()})


if __name__ == "__main__":
    main()
