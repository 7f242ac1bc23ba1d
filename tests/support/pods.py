"""Podman with a separate store, which has only small images of busybox, for Pods of tests."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.engines.archive import write_docker_archive
from sandwright.engines.podman import containers_conf
from sandwright.host import collect_host
from sandwright.watchdog import end_all

INFRA = "localhost/sandwright-infra:1"
"""The image of a Pod's first process, for Podman; its own needs a program that Debian's package lacks."""

_WAIT = "trap 'exit 0' TERM; sleep 600 & wait"


@dataclass(frozen=True)
class PodmanStore:
    """A private Podman; `folder` contains all of it."""

    folder: Path

    def run(self, *words: str | os.PathLike[str], check: bool = True, timeout: float = 60) -> process.Result:
        """Run Podman to its end."""
        store = (
            "--root",
            self.folder / "store",
            "--runroot",
            self.folder / "run",
            "--tmpdir",
            self.folder / "tmp",
        )
        facts = collect_host()
        runtime = "runc" if facts.cgroups == "hybrid" or "crun" not in facts.programs else "crun"
        own = {"HOME": "home", "XDG_RUNTIME_DIR": "xdg", "CONTAINERS_CONF": "containers.conf"}
        environment = {name: str(self.folder / path) for name, path in own.items()}
        path = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        argv = ("podman", *store, "--runtime", runtime, *words)
        return process.run(*argv, check=check, timeout=timeout, env={**path, **environment}, cwd=self.folder)

    def load(self, reference: str, command: Sequence[str], files: dict[str, bytes]) -> None:
        """Make an image of busybox and some files, which runs a command."""
        archive = self.folder / "image.tar"
        with archive.open("wb") as sink:
            write_docker_archive(
                sink, reference, collect_host().platform, busybox_layer(files), {"Cmd": list(command)}
            )
        self.run("load", "--quiet", "--input", archive)
        archive.unlink()


@contextlib.contextmanager
def podman_store() -> Iterator[PodmanStore]:
    """A store with only the image that holds Pods together; it is removed with everything that runs in it."""
    with tempfile.TemporaryDirectory(prefix="sandwright-", dir="/tmp", ignore_cleanup_errors=True) as name:
        store = PodmanStore(Path(name))
        for each in ("home", "xdg"):
            (store.folder / each).mkdir(mode=0o700)
        engine = f'infra_image = "{INFRA}"\n'
        text = containers_conf(collect_host()).replace(
            "[containers]\n", '[containers]\nlog_driver = "k8s-file"\n'
        )
        (store.folder / "containers.conf").write_text(text + engine)
        try:
            store.load(INFRA, ["/bin/sh", "-c", _WAIT], {})
            yield store
        finally:
            store.run("pod", "rm", "--all", "--force", "--time", "0", check=False)
            store.run("rm", "--all", "--force", "--time", "0", check=False)
            end_all(f"{store.folder}/")
            process.run("umount", "--recursive", store.folder / "store" / "overlay", check=False)
            shutil.rmtree(store.folder, ignore_errors=True)


def busybox_layer(files: dict[str, bytes]) -> bytes:
    """The content of an image: busybox under all of its names, mount points, and the files."""
    content = Path(process.which("busybox")).read_bytes()
    names = process.run("busybox", "--list").text.split()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name, mode in {
            "bin": 0o755,
            "dev": 0o755,
            "etc": 0o755,
            "proc": 0o755,
            "sys": 0o755,
            "tmp": 0o1777,
        }.items():
            tar.addfile(_member(name, tarfile.DIRTYPE, mode))
        passwd = {"etc/passwd": b"root:x:0:0::/:/bin/sh\n", "etc/group": b"root:x:0:\n"}
        for name, data in {"bin/busybox": content, **passwd, **files}.items():
            tar.addfile(_member(name, size=len(data)), io.BytesIO(data))
        for name in names:
            if name != "busybox":
                link = _member(f"bin/{name}", tarfile.SYMTYPE)
                link.linkname = "busybox"
                tar.addfile(link)
    return layer.getvalue()


def _member(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o755, size: int = 0) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.mode, member.size = kind, mode, size
    return member
