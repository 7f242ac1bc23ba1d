"""Mounts below a directory are found and unmounted, whatever the directory's name.

Tests of mountinfo.py.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandwright import process
from sandwright.mountinfo import mounted_below, unmount_below


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("name", ["plain", "two words", "back\\slash", "tab\tand\nline"])
def test_what_is_below_is_unmounted_innermost_first(name: str, tmp_path: Path) -> None:
    directory, beside = tmp_path / name, tmp_path / f"{name}-beside"
    inner = directory / "outer" / "inner"
    for point in (directory / "outer", inner, beside):
        point.mkdir(parents=True)
        if not process.run("mount", "-t", "tmpfs", "none", point, check=False):
            pytest.skip("nothing can be mounted here")
    try:
        assert mounted_below(directory) == [directory / "outer", inner]
        unmount_below(directory)
        assert mounted_below(directory) == []
        assert mounted_below(beside) == [beside], "beside is not below"
        unmount_below(beside)
        assert mounted_below(beside) == [beside], "nor is the directory itself"
    finally:
        for point in (inner, directory / "outer", beside):
            process.run("umount", "--lazy", point, check=False)
