"""Boots two machines of the lab and proves two methods there; `invoke lab` proves all.

Tests of launcher/source/scope.c: limits of a normal user by a scope of systemd.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import matrix
from lab.machines import PLATFORMS
from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.needs("qemu-system-x86_64", "mke2fs", "mmdebstrap"),
    pytest.mark.skipif(not THOROUGH, reason="a thorough run boots machines"),
]


@pytest.mark.parametrize("name", ["debian-12", "debian-13"])
def test_bwrap_and_landlock(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This includes the limits of a normal user, by a scope of systemd (`launcher/source/scope.c`)."""
    monkeypatch.setattr(matrix, "METHODS", ("bwrap", "landlock"))
    cells = matrix.prove(PLATFORMS[name], tmp_path / "out")["cells"]
    found = {(each["method"], each["user"]): (each["verdict"], each["limits"]) for each in cells}
    wall = ("pass", "held") if name == "debian-13" else ("cannot", "")
    assert found == {
        ("bwrap", "root"): ("pass", "held"),
        ("bwrap", "lab"): ("pass", "held"),
        ("landlock", "root"): wall,
        ("landlock", "lab"): wall,
    }
