"""Podman started by a user other than root: however its namespace maps, new files are the caller's."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from sandwright import process
from sandwright.engines.podman import containers_conf
from sandwright.host import collect_host
from sandwright.image.export import write_archive
from support import mappedimages

pytestmark = [
    pytest.mark.needs("podman", "runc", "busybox", "setpriv", "unshare", "newuidmap"),
    pytest.mark.skipif(os.getuid() != 0, reason="becomes another user"),
    pytest.mark.timeout(300),
]

UID, NAME = 65534, "nobody"
"""A user that every machine has, and whose home no image has."""

IMAGE = "localhost/sandwright-mapped:latest"
WHO = "id -un; id -u; echo $HOME; : >/workspace/new; cat /proc/self/status"


@dataclass(frozen=True)
class Caller:
    """The command prefix with which Podman runs as another user, in a directory of that user."""

    words: tuple[str, ...]
    environment: Mapping[str, str]
    home: Path

    def podman(self, *words: str) -> process.Result:
        return process.run(*self.words, *words, env=self.environment, cwd=self.home, timeout=120, check=False)

    def told(self, *options: str) -> tuple[list[str], int]:
        """The name, number and home inside, and the owner of the new file. No rights are left in any case."""
        work = self.home / "work"
        (work / "new").unlink(missing_ok=True)
        words = ("run", "--rm", "--network=none", "--pull=never", f"--volume={work}:/workspace", *options)
        result = self.podman(*words, IMAGE, "sh", "-c", WHO)
        assert result.status == 0, result.stderr
        lines = result.text.splitlines()
        for kind in ("CapEff", "CapPrm"):
            assert f"{kind}:\t0000000000000000" in lines
        return lines[:3], (work / "new").stat().st_uid


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mapped")
    layout = mappedimages.alpine_like(folder / "layout")
    with (folder / "archive").open("wb") as sink:
        write_archive(layout, collect_host().platform, sink, reference=IMAGE)
    return folder / "archive"


@pytest.fixture(scope="module")
def ada(archive: Path) -> Iterator[Caller]:
    """A user with subordinate IDs that this machine's files do not list."""
    with _caller(archive, f"{NAME}:300000:65536\n") as caller:
        yield caller


@contextlib.contextmanager
def _caller(archive: Path, subordinate: str) -> Iterator[Caller]:
    with tempfile.TemporaryDirectory(prefix="sandwright-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        for name in ("run", "work"):
            (home / name).mkdir()
        table = home / "subuid"
        table.write_text(subordinate)
        (home / "containers.conf").write_text(containers_conf(collect_host()) + 'runtime = "runc"\n')
        for path in (home, *home.rglob("*")):
            os.chown(path, UID, UID)
        (home / "run").chmod(0o700)
        (home / "work").chmod(0o777)
        home.chmod(0o755)
        over = f'for f in /etc/subuid /etc/subgid; do mount --bind {table} $f || exit 1; done; exec "$@"'
        apart = ("unshare", "--mount", "sh", "-c", over, "sh")
        who = ("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups", "--")
        store = ("--root", f"{home}/store", "--runroot", f"{home}/run/r", "--tmpdir", f"{home}/run/t")
        environment = {
            "HOME": str(home),
            "XDG_RUNTIME_DIR": f"{home}/run",
            "CONTAINERS_CONF": f"{home}/containers.conf",
            "PATH": os.environ["PATH"],
        }
        caller = Caller(
            (*apart, *who, process.which("podman"), *store, "--storage-driver=vfs"), environment, home
        )
        with archive.open("rb") as source:
            words = (*caller.words, "load", "--quiet")
            process.run(*words, stdin=source, env=environment, timeout=120)
        try:
            yield caller
        finally:
            caller.podman("unshare", "rm", "-rf", f"{home}/store")
            for note in home.glob("**/pause.pid"):
                with contextlib.suppress(ValueError, ProcessLookupError):
                    os.kill(int(note.read_text()), signal.SIGKILL)


ASKED = f"--env=SANDWRIGHT_USER={UID}:{UID}"


def test_root_of_the_namespace_is_the_caller(ada: Caller) -> None:
    """Root stays root, without any right: another number would be another user outside."""
    assert ada.told(ASKED) == (["root", "0", "/root"], UID)
    assert ada.told() == (["agent", "1000", "/home/agent"], 300999), "the control: the account as it is"


def test_the_caller_keeps_the_number(ada: Caller) -> None:
    told, owner = ada.told("--userns=keep-id", f"--user={UID}:{UID}", ASKED)
    assert (told[:2], owner) == ([NAME, str(UID)], UID)


def test_root_of_a_namespace_that_keeps_the_number(ada: Caller) -> None:
    """There, root is not the caller: the account gets the caller's number."""
    assert ada.told("--userns=keep-id", "--user=0:0", ASKED) == (["agent", str(UID), "/home/agent"], UID)
    told, owner = ada.told("--userns=keep-id", "--user=0:0")
    assert (told[1], owner) == ("1000", 301000), "the control"


def test_a_number_that_the_namespace_lacks(ada: Caller) -> None:
    words = ("run", "--rm", "--network=none", "--pull=never", "--env=SANDWRIGHT_USER=100000:100000", IMAGE)
    refused = ada.podman(*words, "true")
    assert refused.status == 125
    assert "100000:100000 is not mapped in this user namespace" in refused.stderr
