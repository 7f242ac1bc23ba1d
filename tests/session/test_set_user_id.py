"""No run leaves a set-user-id file, unless the policy has the filter for package managers."""

from __future__ import annotations

import stat

import pytest

from session.conftest import Project
from support import interpreters

pytestmark = pytest.mark.needs("bwrap")

INSIDE = """
import ctypes, errno, os, struct
libc, how = ctypes.CDLL(None, use_errno=True), struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, 0o4755, 0)
libc.syscall(437, -100, b"structure", how, len(how))
print("openat2", errno.errorcode.get(ctypes.get_errno(), "ok"))
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
CHANGES = """
import mmap, os
with mmap.mmap(os.open("there", os.O_RDWR), 0) as content:
    content[:4] = b"else"
"""
TOLD = "A set-user-id file gives whoever runs it on the host the rights of its owner"


@pytest.mark.parametrize(
    ("profile", "options"),
    [("strict", ()), ("default", ()), ("default", ("--explain-denials",)), ("build", ())],
)
def test_a_set_user_id_file(project: Project, profile: str, options: tuple[str, ...]) -> None:
    """Modes of directories stay as requested, even if each call with a path is recorded."""
    project.policy.write_text(f"schema: 1\nmethod: bwrap\nprocess: {{seccomp: {profile}}}\n")
    (project.root / "inside.py").write_text(INSIDE)
    found, said = project.denials(interpreters.INSIDE, "-P", "inside.py", options=options)
    names = ("chmod", "fchmod", "open", "mknod", *(["structure"] if profile == "build" else []))
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
    assert not (project.root / "structure").exists()
    assert {each["error"] for each in found} == {"EPERM"}
    told = {each["what"]: each for each in found}
    assert {*told} <= {"chmod", "fchmod", "fchmodat", "open", "openat", "mknod", "mknodat"}
    assert sum(each["count"] for each in found) == len(names)
    assert {each["edit"] for each in found} == {"process: {seccomp: build}"}
    assert told["fchmod"]["why"] == TOLD
    assert f"refused: the system call fchmod (EPERM: {TOLD}), once: process.seccomp, {profile}" in said


def test_one_that_is_there_already_is_named_when_it_was_changed(project: Project) -> None:
    """write(2) clears the bit; a write to mapped memory doesn't."""
    (project.root / "changes.py").write_text(CHANGES)
    (project.root / "there").write_text("content")
    (project.root / "there").chmod(0o4755)
    ended = project.run(interpreters.INSIDE, "-P", "changes.py")
    assert (project.root / "there").read_text() == "elseent"
    assert stat.S_IMODE((project.root / "there").stat().st_mode) == 0o4755
    assert f"{project.root}/there: a set-user-id or set-group-id file" in ended.stderr.decode()


@pytest.mark.parametrize("profile", ["default", "build"])
def test_under_landlock_none_of_the_hosts_files_becomes_one(project: Project, profile: str) -> None:
    """Landlock does not restrict modes: other bits of any file of this user can be changed."""
    accepted = ("filesystem.protect", "filesystem.attributes", "process.kernel")
    accept_gaps = "".join(f"  - {{feature: {each}, method: landlock, reason: a test}}\n" for each in accepted)
    text = f"schema: 1\nmethod: landlock\nprocess: {{seccomp: {profile}}}\naccept_gaps:\n{accept_gaps}"
    project.policy.write_text(text)
    tool = project.home / "tool"
    tool.write_text("x")
    tool.chmod(0o755)
    script = f"chmod 700 {tool} && ! chmod 4700 {tool}; touch made; chmod 4755 made; ls -l made"
    ended = project.run("sh", "-c", script, options=("--trust-policy",))
    assert ended.returncode == 0, ended.stderr.decode()
    assert stat.S_IMODE(tool.stat().st_mode) == 0o700
    assert not (project.root / "made").stat().st_mode & stat.S_ISUID
