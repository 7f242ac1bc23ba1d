"""The leftovers of a killed run are removed by the next one, which removes nothing else."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandwright import process
from sandwright.host import MachineFacts
from sandwright.progress import SILENT
from sandwright.runtime.engine import LABEL
from sandwright.runtime.registry import RUNTIMES
from sandwright.runtime.scratch import (
    PREFIX,
    _directory_identity,
    _scratch_records,
    scratch_directory,
    stale_directories,
)
from sandwright.runtime.sweep import sweep
from support.processtrees import naming
from support.small_image import PYTHON, SmallImage
from support.waiting import until

RUN = """
import json, sys, threading
from pathlib import Path
from sandwright.host import collect_host
from sandwright.runtime.contract import Start
from sandwright.watchdog import runtime_environment
from sandwright.runtime.registry import RUNTIMES
from sandwright.runtime.scratch import scratch_directory
from sandwright.runtime.sessions import Sessions
from support.small_image import SmallImage
name, rootfs, platform, bundle, argv, temporary = sys.argv[1:]
image = SmallImage(Path(rootfs), platform)
stop = threading.Event()
with scratch_directory(Path(temporary)) as scratch, Sessions(collect_host(), scratch, stop) as sessions:
    ready = sessions.check(RUNTIMES[name], platform)
    session = sessions.session(ready)
    subject = image.subject(Path(bundle))
    session.run(Start(subject, tuple(json.loads(argv)), 600, runtime_environment()))
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for scratch directories of this test only. Its path and the runtime's are short."""
    with tempfile.TemporaryDirectory(prefix="sw-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        monkeypatch.setenv("XDG_RUNTIME_DIR", f"{name}/runtime")
        made = Path(name, "scratch")
        for each in (made, Path(name, "runtime")):
            each.mkdir(mode=0o755)
        yield made


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.needs("dockerd" if n == "docker" else n), id=n) for n in RUNTIMES],
)
def test_what_a_killed_run_has_left(
    name: str, host: MachineFacts, small_image: SmallImage, tmp_path: Path, temporary: Path
) -> None:
    if not host.is_root:
        pytest.skip("runs as the image's user under every runtime only for root")
    mark = f"hangs-{uuid.uuid4().hex}"
    argv = json.dumps([PYTHON, "-c", f"import time; time.sleep(600)  # {mark}"])
    words = [
        name,
        str(small_image.rootfs),
        small_image.platform,
        str(tmp_path / "bundle"),
        argv,
        str(temporary),
    ]
    path = os.pathsep.join([*sys.path, str(Path(__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": path}
    with process.start(sys.executable, "-c", RUN, *words, env=environment) as running:
        until(lambda: running.poll() is not None or _in_container(mark, temporary))
        assert running.poll() is None, running.stderr.read() if running.stderr else ""
        os.kill(running.pid, 9)
        running.wait(10)
    (directory,) = temporary.iterdir()
    assert stale_directories() == [directory]
    sweep(host, SILENT)
    assert list(temporary.iterdir()) == []
    until(lambda: not naming(mark))
    assert naming(directory.name) == {}
    assert directory.name not in Path("/proc/self/mountinfo").read_text()
    if name == "docker" and process.find("docker") is not None:
        chosen = ("--all", "--quiet", "--filter", f"label={LABEL}={directory.name}")
        assert process.run("docker", "ps", *chosen, check=False).text == ""


def _in_container(mark: str, temporary: Path) -> list[int]:
    """Processes that run the marked script; in gVisor, whose processes the host can't see, the sandbox."""
    made = [each.name for each in temporary.iterdir()]
    if len(made) != 1:
        return []
    found = sorted(naming("runsc-sandbox").keys() & naming(made[0]).keys())
    return found + [pid for pid, words in naming(mark).items() if words.split(b"\0")[0] == PYTHON.encode()]


def test_a_live_run_is_left_alone(host: MachineFacts, temporary: Path) -> None:
    with scratch_directory(temporary) as scratch:
        assert stale_directories() == []
        sweep(host, SILENT)
        assert scratch.is_dir()


def test_a_planted_directory_is_left_alone(host: MachineFacts, temporary: Path) -> None:
    """A sandbox that shares the temporary directory can make one that looks like ours."""
    planted = temporary / f"{PREFIX}planted"
    (planted / "runc-0/state").mkdir(parents=True)
    (planted / ".lock").write_bytes(b"")
    os.utime(planted / ".lock", (0, 0))
    sweep(host, SILENT)
    assert (planted / "runc-0/state").exists()


def test_another_directory_of_that_name_is_left_alone(host: MachineFacts, temporary: Path) -> None:
    with scratch_directory(temporary) as scratch:
        record = _scratch_records() / scratch.name
        said = record.read_bytes()
    scratch.mkdir()
    record.write_bytes(said)
    other = temporary / "other"
    other.mkdir()  # takes a new inode number, whichever the first one had
    scratch.rmdir()
    other.rename(scratch)
    if _directory_identity(scratch) != said:
        assert stale_directories() == []
        sweep(host, SILENT)
        assert scratch.is_dir()
    record.unlink(missing_ok=True)


def test_what_is_not_ours_is_left_alone(host: MachineFacts, temporary: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / ".lock").write_bytes(b"")
    (temporary / f"{PREFIX}link").symlink_to(target)
    (temporary / f"{PREFIX}file").write_bytes(b"")
    (temporary / "other").mkdir()
    (temporary / "other/.lock").write_bytes(b"")
    if host.is_root:
        foreign = temporary / f"{PREFIX}foreign"
        foreign.mkdir()
        (foreign / ".lock").write_bytes(b"")
        os.chown(foreign, 12345, 12345)
    before = sorted(temporary.rglob("*"))
    assert stale_directories() == []
    sweep(host, SILENT)
    assert sorted(temporary.rglob("*")) == before


def test_a_stale_directory_goes_and_is_told(host: MachineFacts, temporary: Path) -> None:
    class Notes:
        def __init__(self) -> None:
            self.told: list[str] = []

        def note(self, text: str) -> None:
            self.told.append(text)

        step = SILENT.step

    stale = temporary / f"{PREFIX}stale"
    (stale / "runc-0/state").mkdir(parents=True)
    (stale / "unknown-0").mkdir()
    (_scratch_records() / stale.name).write_bytes(_directory_identity(stale))
    notes = Notes()
    sweep(host, notes)
    assert not stale.exists()
    assert notes.told == [f"smoke: cleared up {stale}, left by a run that was killed"]
    assert list(_scratch_records().iterdir()) == []


def test_the_lock_is_held(temporary: Path) -> None:
    with (
        scratch_directory(temporary) as scratch,
        (_scratch_records() / scratch.name).open("rb") as lock,
        pytest.raises(BlockingIOError),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not scratch.exists()
