"""Files that the host makes at a denied name during a run, and links that are retargeted to one.

Tests of launcher/source/watch_denied.c.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.conftest import WAIT
from support.launchers import launcher_of

pytestmark = pytest.mark.needs("bwrap", "cc")

SETTLED = 1.0
"""Seconds until a new file is hidden; it usually takes milliseconds."""

OTHER = 65534 if os.geteuid() == 0 else None
"""Another user for the run, because modes deny root nothing."""

READS = """
echo started; read go
for file in "$@"; do cat "$file" 2>&1; done
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A home outside /tmp, because the sandbox has a separate /tmp."""
    made = Path(tempfile.mkdtemp(prefix="sandwright-test-", dir="/var/tmp"))
    (made / "p/.git").mkdir(parents=True)
    yield made
    for each in made.iterdir():
        each.chmod(0o700)
    shutil.rmtree(made)


Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def run(home: Path, program: Path, environ: dict[str, str]) -> Iterator[Run]:
    """Start a sandbox, which reads these files on a signal; return when it has started."""
    begun: list[subprocess.Popen[str]] = []

    def start(deny: str, *files: str, user: int | None = None) -> subprocess.Popen[str]:
        text = f"schema: 1\nmethod: bwrap\nfilesystem: {{write: [$PROJECT], deny: [{deny}]}}\n"
        launcher_of(text, "bwrap", home / "out", project=home / "p")
        (home / "out/launch").write_bytes(program.read_bytes())
        (home / "state").mkdir()
        if user is not None:
            for each in (home, *home.rglob("*")):
                os.chown(each, user, user)
        child = subprocess.Popen(
            [home / "out/launch", "sh", "-c", READS, "sh", *(str(home / each) for each in files)],
            env={**environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home / "state")}, cwd=home / "p",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            user=user, group=user, extra_groups=None if user is None else [],
        )  # fmt: skip
        begun.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        return child

    yield start
    for child in begun:
        child.kill()
        child.wait(WAIT)


def read_inside(child: subprocess.Popen[str]) -> str:
    """The content that the sandbox read, if it was not ended."""
    time.sleep(SETTLED)
    said = child.communicate("go\n", timeout=WAIT)[0]
    assert child.returncode in (0, 1), said
    return said


def test_a_denied_file_that_the_host_makes(home: Path, run: Run) -> None:
    child = run("~/.netrc", ".netrc", "other")
    (home / ".netrc").write_text("SECRET")
    (home / "other").write_text("plain")
    said = read_inside(child)
    assert "SECRET" not in said
    assert "plain" in said


def test_a_denied_file_whose_directories_are_made_with_it(home: Path, run: Run) -> None:
    child = run("~/a/b/c/key", "a/b/c/key", "a/b/c/other")
    (home / "a/b/c").mkdir(parents=True)
    (home / "a/b/c/key").write_text("SECRET")
    (home / "a/b/c/other").write_text("plain")
    said = read_inside(child)
    assert "SECRET" not in said
    assert "plain" in said


def test_a_denied_file_in_a_directory_that_cannot_be_read(home: Path, run: Run) -> None:
    """Its entries can be reached, and inotify(7) refuses to watch it."""
    (home / "closed").mkdir(0o311)
    child = run("~/closed/key", "closed/key", "closed/other", user=OTHER)
    (home / "closed/key").write_text("SECRET")
    (home / "closed/other").write_text("plain")
    said = read_inside(child)
    assert "SECRET" not in said
    assert "plain" in said


def test_a_denied_file_in_a_directory_that_is_opened(home: Path, run: Run) -> None:
    (home / "new").mkdir()
    (home / "new/key").write_text("SECRET")
    (home / "new/other").write_text("plain")
    child = run("~/closed/key", "closed/key", "closed/other", user=OTHER)
    (home / "new").chmod(0)
    (home / "new").rename(home / "closed")
    time.sleep(0.1)
    (home / "closed").chmod(0o755)
    said = read_inside(child)
    assert "SECRET" not in said
    assert "plain" in said


def test_a_denied_directory_that_is_moved_to_its_place(home: Path, run: Run) -> None:
    (home / "new").mkdir()
    (home / "new/key").write_text("SECRET")
    child = run("~/.vault, ~/.other/key", ".vault/key", ".other/key")
    (home / "new").rename(home / ".vault")
    (home / "more").mkdir()
    (home / "more/key").write_text("SECRET")
    (home / "more").rename(home / ".other")
    assert "SECRET" not in read_inside(child)


def test_a_denied_file_that_is_made_again_and_again(home: Path, run: Run) -> None:
    child = run("~/.netrc", ".netrc")
    for number in range(20):
        (home / "new").write_text(f"SECRET {number}")
        (home / "new").rename(home / ".netrc")
        time.sleep(0.01)
        if number % 3 == 0:
            (home / ".netrc").unlink()
    (home / ".netrc").unlink(missing_ok=True)
    (home / ".netrc").write_text("SECRET")
    os.link(home / ".netrc", home / "again")
    (home / ".netrc").unlink()
    (home / "again").rename(home / ".netrc")  # the same file, without the mount that covered it
    assert "SECRET" not in read_inside(child)


def test_a_denied_name_that_becomes_a_link(home: Path, run: Run) -> None:
    (home / "store").mkdir()
    (home / "store/netrc").write_text("SECRET")
    child = run("~/.netrc, ~/.aws/key", ".netrc", ".aws/key", "store/netrc")
    (home / ".netrc").symlink_to("store/netrc")
    (home / ".aws").symlink_to(home / "store")
    time.sleep(0.1)
    (home / "store/key").write_text("SECRET")
    assert "SECRET" not in read_inside(child)


def test_a_link_to_a_denied_directory_that_is_pointed_elsewhere(home: Path, run: Run) -> None:
    for name in ("one", "two", "three"):
        (home / name).mkdir()
        (home / name / "config").write_text(f"SECRET {name}")
    (home / ".kube").symlink_to("one")
    child = run("~/.kube", ".kube/config", "one/config", "two/config")
    for name in ("two", "three"):
        (home / "new").symlink_to(name)
        (home / "new").rename(home / ".kube")
        time.sleep(0.1)
    assert "SECRET" not in read_inside(child)


def test_a_link_above_a_denied_name_that_is_pointed_elsewhere(home: Path, run: Run) -> None:
    """At first, the link's new target does not exist."""
    for name in ("one", "two"):
        (home / "dot" / name).mkdir(parents=True)
    (home / "dot/one/token").write_text("SECRET")
    (home / ".config").symlink_to("dot/one")
    child = run("~/.config/token", ".config/token", "dot/one/token")
    (home / ".config").unlink()
    (home / ".config").symlink_to("dot/two")
    time.sleep(0.1)
    (home / "dot/two/token").write_text("SECRET")
    assert "SECRET" not in read_inside(child)


def test_what_lies_over_a_placeholder_holds_no_memory(
    home: Path, program: Path, environ: dict[str, str]
) -> None:
    """The owner of the placeholder may change its mode; the kernel's default size is half of the memory."""
    text = "schema: 1\nmethod: bwrap\nfilesystem: {write: [$PROJECT]}\n"
    launcher_of(text, "bwrap", home / "out", project=home / "p")
    (home / "out/launch").write_bytes(program.read_bytes())
    script = "chmod 0755 .vscode; head -c 100000 /dev/zero >.vscode/x; df -k --output=size .vscode | tail -1"
    said = subprocess.run(
        [home / "out/launch", "sh", "-c", script], env={**environ, "HOME": str(home)},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT, check=True, cwd=home / "p",
    )  # fmt: skip
    assert said.stdout.strip() == "8"
    assert "No space left on device" in said.stderr


def _exchange(home: Path) -> None:
    (home / "x/y").mkdir(parents=True)
    libc = ctypes.CDLL(None, use_errno=True)
    one, other = (os.fsencode(home / name) for name in ("x/y", "new/y"))
    assert libc.renameat2(-100, one, -100, other, 2) == 0, os.strerror(ctypes.get_errno())  # RENAME_EXCHANGE


def _links(home: Path) -> None:
    (home / "to").symlink_to("new")
    (home / "x").symlink_to(home / "to")


def _hard_link(home: Path) -> None:
    (home / "x/y").mkdir(parents=True)
    (home / "x/y/key").hardlink_to(home / "file")


LATER: dict[str, Callable[[Path], object]] = {
    "a directory two levels above is renamed": lambda home: (home / "new").rename(home / "x"),
    "a link to a link two levels above": _links,
    "an exchange of its directory": _exchange,
    "a hard link": _hard_link,
}


@pytest.mark.parametrize("way", LATER)
def test_other_ways_in_which_a_denied_name_appears(home: Path, run: Run, way: str) -> None:
    (home / "new/y").mkdir(parents=True)
    (home / "new/y/key").write_text("SECRET")
    (home / "new/y/plain").write_text("plain")
    (home / "file").write_text("SECRET")
    child = run("~/x/y/key", "x/y/key", "x/y/plain", "new/y/plain")
    LATER[way](home)
    assert (home / "x/y/key").read_text() == "SECRET"
    time.sleep(SETTLED)
    said = child.communicate("go\n", timeout=WAIT)[0]
    assert "SECRET" not in said
    assert "plain" in said or child.returncode == 137


@pytest.mark.needs("mount")
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_denied_name_that_is_mounted(home: Path, run: Run) -> None:
    """The mount is not visible inside."""
    (home / "new").mkdir()
    (home / "new/key").write_text("SECRET")
    (home / "x").mkdir()
    child = run("~/x/key", "x/key")
    subprocess.run(["mount", "--bind", home / "new", home / "x"], check=True, timeout=WAIT)
    try:
        assert (home / "x/key").read_text() == "SECRET"
        assert "SECRET" not in read_inside(child)
    finally:
        subprocess.run(["umount", home / "x"], check=True, timeout=WAIT)
