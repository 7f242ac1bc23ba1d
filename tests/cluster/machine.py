"""Changes of this machine for a test cluster, and their reversal."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sandwright.errors import HostError

_LOOK = 0.25
_CGROUPS = Path("/sys/fs/cgroup")
_TUNED = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
)  # fmt: skip
"""Settings of the kernel that a kubelet changes; they are restored."""


@contextlib.contextmanager
def kept_settings() -> Iterator[None]:
    """Restore the settings that a kubelet changes."""
    paths = [path for path in (Path("/proc/sys", each) for each in _TUNED) if path.exists()]
    before = {path: path.read_text() for path in paths}
    try:
        yield
    finally:
        for path, text in before.items():
            if path.read_text() != text:
                path.write_text(text)


@contextlib.contextmanager
def control_groups(name: str) -> Iterator[None]:
    """Create one cgroup for the cluster in each hierarchy; all are removed at the end."""
    roots = [each for each in _CGROUPS.iterdir() if each.is_dir() and (each / "cgroup.procs").exists()]
    groups = [each / name for each in roots] or [_CGROUPS / name]
    for group in groups:
        group.mkdir()
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (group / setting).exists() and not (group / setting).read_text().strip():
                (group / setting).write_text((group.parent / setting).read_text())
    try:
        yield
    finally:
        for group in groups:
            until(lambda group=group: _removed(group), 30, f"{group} is empty")  # type: ignore[misc]


def _removed(group: Path) -> bool:
    for found, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            Path(found).rmdir()
    return not group.exists()


def until(true: Callable[[], bool], limit: float, what: str) -> None:
    """Wait until something is true. Raise HostError after `limit` seconds."""
    deadline = time.monotonic() + limit
    while not true():
        if time.monotonic() > deadline:
            raise HostError(f"after {limit:.0f} s it is not so that {what}")
        time.sleep(_LOOK)
