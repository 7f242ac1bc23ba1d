"""Whether the tests can create cgroups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def has_groups() -> bool:
    """Whether this user can create cgroups with all controllers (version 1) here."""
    own = {
        name: path
        for _, names, path in (
            each.split(":", 2) for each in Path("/proc/self/cgroup").read_text().splitlines()
        )
        for name in names.split(",")
    }
    wanted = ("memory", "cpu", "pids")
    return all(each in own and os.access(f"/sys/fs/cgroup/{each}{own[each]}", os.W_OK) for each in wanted)


needs_groups = pytest.mark.skipif(
    os.geteuid() != 0 and not has_groups(), reason="this user can't create cgroups"
)
"""For a limit in a cgroup: root can create one with both versions."""
