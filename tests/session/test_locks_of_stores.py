"""No sandbox can hold a lock that runs and builds wait for, except that of a project or repository.

Tests of locking.py.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import locking, user_dirs
from sandwright.image import layout
from sandwright.image.cache import Cache
from sandwright.rootfs.unpacking import staging, store
from sandwright.session.audit import AuditLog
from session.conftest import Project

PACKAGES = Path(locking.__file__).parents[1]

HIDDEN = "below the directories that no sandbox sees"
LOCKS: dict[str, str] = {
    "sandwright/locking.py": HIDDEN,
    "sandwright/runtime/scratch.py": HIDDEN,
    "sandwright/session/detached.py": HIDDEN,
    "sandwright/session/stale.py": HIDDEN,
    "sandwright/bridge/directory.py": HIDDEN,
    "sandwright/workspace/store.py": HIDDEN,
    "sandwright/launcher/source/cgroup.c": "below /sys/fs/cgroup, which no sandbox sees",
    "sandwright/launcher/source/ports.c": HIDDEN,
    "sandwright/launcher/source/placeholders.c": "the project or its repository, as docs/threats.md says",
}
"""Each module that locks a file by its descriptor. The others call `locking.exclusive`."""

CALL = re.compile(r"\b(?:flock|lockf|lock_within)\(\w|F_OFD_SETLK|F_SETLK")

HOLD = r"""
import fcntl, os, sys, time
held = []
for root in sys.argv[1:]:
    for folder, names, files in os.walk(root):
        for name in (".", *names, *files):
            try:
                held.append(os.open(os.path.join(folder, name), os.O_RDONLY | os.O_NONBLOCK))
                fcntl.flock(held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                pass
            if "locks" in folder.split("/"):
                print("seen", folder, flush=True)
print("holding", len(held), flush=True)
time.sleep(300)
"""


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project in a home outside /tmp, which is another one inside."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="sandwright-test-") as made:
        project = Project(Path(made, "home", "p"), Path(made, "home"), Path(made, "run"))
        for folder in (project.root, project.runtime):
            folder.mkdir(mode=0o700, parents=True)
        project.policy.write_text("schema: 1\nmethod: bwrap\n")
        monkeypatch.setenv("HOME", str(project.home))
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(project.runtime))
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        yield project


def test_each_lock_is_decided() -> None:
    """No sandbox may be able to open a new one."""
    files = [*PACKAGES.rglob("*.py"), *PACKAGES.rglob("*.c")]
    found = {str(path.relative_to(PACKAGES)) for path in files if CALL.search(path.read_text())}
    assert len(files) > 700
    assert found == set(LOCKS)


def _make_rootfs(path: Path) -> dict[str, str]:
    path.mkdir()
    return {}


def _use_all(home: Path) -> None:
    """Take every lock of `locking.exclusive`."""
    cache = home / ".cache/sandwright"
    assert store.stored_rootfs(cache / "rootfs", "image", _make_rootfs).fresh
    with staging.staged(cache / "rootfs/new") as stage:
        stage.publish()
    store.write_atomically(cache / "rootfs/report", b"text")
    with Cache(cache).adding("0" * 64) as file:
        file.write(b"")
    Cache(cache).sweep()
    with layout.staging(cache / "images"):
        pass
    log = AuditLog(str(home / "audit"))
    log.write("start")
    log.close()


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("account", ["another", "the same"])
def test_a_sandbox_delays_nobody_by_holding_what_it_sees(
    person: Project, monkeypatch: pytest.MonkeyPatch, account: str
) -> None:
    """It holds every file that it can open: in the stores, beside lock files, in the runtime directory."""
    if account == "the same":
        monkeypatch.setattr(user_dirs, "account_home", lambda: str(person.home))
    cache = person.home / ".cache/sandwright"
    for name in ("rootfs", "partial", "images", "sha256/00"):
        (cache / name).mkdir(parents=True)
    (person.home / "audit").touch(mode=0o600)
    (cache / "partial" / f"{'1' * 64}.{'0' * 32}").touch()
    with locking.exclusive(cache / "rootfs/other", within=0):
        locks = Path(user_dirs.account_home(), user_dirs.STATE, "keys/locks")
        assert [*locks.iterdir()], "the control: here it is"
        roots = [person.home, person.runtime, locks.parents[1]]
        holder = person.start("/usr/bin/python3", "-c", HOLD, *map(str, roots))
        try:
            assert holder.stdout is not None
            said = holder.stdout.readline().decode()
            assert said.startswith("holding "), said
            assert int(said.split()[1]) >= 8
            began = time.monotonic()
            _use_all(person.home)
            assert time.monotonic() - began < 5
        finally:
            holder.terminate()
            holder.wait(60)
