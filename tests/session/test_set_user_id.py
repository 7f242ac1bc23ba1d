"""No run leaves a set-user-id file, unless the policy has the filter for package managers."""

from __future__ import annotations

import stat
import sys

import pytest

from session.conftest import Project

pytestmark = pytest.mark.needs("bwrap")

INSIDE = """
import errno, os, sys
tries = {
    "chmod": lambda name: (os.close(os.open(name, os.O_CREAT, 0o755)), os.chmod(name, 0o4755)),
    "fchmod": lambda name: os.fchmod(os.open(name, os.O_CREAT, 0o755), 0o6755),
    "open": lambda name: os.open(name, os.O_CREAT | os.O_WRONLY, 0o4755),
    "mknod": lambda name: os.mknod(name, 0o104755),
}
for name, attempt in tries.items():
    try:
        attempt(name)
        print(name, "ok")
    except OSError as fault:
        print(name, errno.errorcode[fault.errno])
os.mkdir("shared")
os.chmod("shared", 0o2775)
os.mkdir("sticky", 0o7777)
"""
TOLD = "A set-user-id file gives whoever runs it on the host the rights of its owner"


@pytest.mark.parametrize("profile", ["strict", "default", "build"])
def test_a_set_user_id_file(project: Project, profile: str) -> None:
    """Modes of directories stay as they are asked for."""
    project.policy.write_text(f"schema: 1\nmethod: bwrap\nprocess: {{seccomp: {profile}}}\n")
    (project.root / "inside.py").write_text(INSIDE)
    found, said = project.denials(sys.executable, "-P", "inside.py")
    names = ("chmod", "fchmod", "open", "mknod")
    bits = {
        name
        for name in names
        if (path := project.root / name).exists() and path.stat().st_mode & stat.S_ISUID
    }
    assert stat.S_IMODE((project.root / "shared").stat().st_mode) == 0o2775
    if profile == "build":
        assert (bits, found) == ({*names}, [])
        assert said.count("a set-user-id or set-group-id file") == len(names)
        return
    assert bits == set()
    assert {each["error"] for each in found} == {"EPERM"}
    told = {each["what"]: each for each in found}
    assert {*told} <= {"chmod", "fchmod", "fchmodat", "open", "openat", "mknod", "mknodat"}
    assert sum(each["count"] for each in found) == len(names)
    assert {each["edit"] for each in found} == {"process: {seccomp: build}"}
    assert told["fchmod"]["why"] == TOLD
    assert f"refused: the system call fchmod (EPERM: {TOLD}), once: process.seccomp, {profile}" in said
