"""`sandwright-changes`: prints the changes of a run so far, for programs of this run. The bridge starts it.

It prints the same as `sandwright changes`. Its arguments are the host's: the policy's file, whether an option
named it, the run's directory, the name of the workspace, and the form (`""`, `json` or `diff`), which is the
only choice of the sandbox. Errors and warnings are about the host, so the sandbox gets neither.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from sandwright.bridge.capabilities import obey_modes
from sandwright.cli.review import report_changes
from sandwright.errors import SandwrightError
from sandwright.rootfs.unpacking.removal import OPEN_DIRECTORY
from sandwright.session.prepare import resolved_with
from sandwright.session.request import RunRequest
from sandwright.workspace.base import read_base
from sandwright.workspace.below import closing
from sandwright.workspace.diff import diff_running
from sandwright.workspace.links import RunningLinks
from sandwright.workspace.running import running_changes
from sandwright.workspace.store import workspace_of
from sandwright.workspace.withheld import sort_changes

FORMS = ("", "json", "diff")
MOST_MEMORY = 2 << 30
"""Bytes of address space. Programs inside decide how many names there are, and how long these are."""

_FAILED = 125
_WHY = "sandwright-changes: cannot list the changes; on the host, `sandwright changes` says why\n"


def main(words: list[str]) -> int:
    """Print the changes; give the exit status."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    sandbox = os.dup(2)
    with closing(os.open(os.devnull, os.O_WRONLY)) as nothing:
        os.dup2(nothing, 2)
    try:
        _print_changes_so_far(*words)
        sys.stdout.flush()
    except (SandwrightError, OSError, MemoryError):
        os.write(sandbox, _WHY.encode())
        return _FAILED
    return 0


def _print_changes_so_far(policy: str, named: str, cwd: str, name: str, form: str) -> None:
    request = RunRequest([], policy=policy, cwd=cwd, named=named == "named")
    workspace = workspace_of(os.path.realpath(Path(request.policy).parent), name)
    base = read_base(workspace)
    obey_modes()
    found = running_changes(workspace, base)
    with closing(os.open(workspace.tree, OPEN_DIRECTORY)) as tree:
        links = RunningLinks(workspace, base, found, tree)
        _, held = sort_changes(found, base, resolved_with(request), links) if found else ([], [])
    report_changes(workspace, found, held, form=form, differ=diff_running)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
