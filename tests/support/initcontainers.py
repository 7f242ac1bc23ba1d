"""A small root with our first process in it, and runc containers that start with it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandwright import process
from sandwright.image import init

PASSWD = """\
root:x:0:0:root:/root:/bin/sh
agent:x:1000:1000::/home/agent:/bin/sh
www:x:33:33::/var/www:/bin/false
"""
GROUP = "root:x:0:\ndisk:x:6:root\ndialout:x:20:\nagent:x:1000:\n"
APPLETS = ("grep", "id", "kill", "sh", "sleep", "touch", "true", "tty")
CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID")
LIMIT = 60


@dataclass
class Container:
    """A root below `place`, which tests may change, and the settings of its next start."""

    place: Path
    caller: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    user: tuple[int, int] = (0, 0)
    groups: tuple[int, ...] = ()
    capabilities: Sequence[str] = CAPABILITIES
    read_only: bool = False
    mounts: list[tuple[Path, str]] = field(default_factory=list)
    maps: dict[str, Any] = field(default_factory=dict)
    account: str = "agent"
    terminal: bool = False

    @property
    def root(self) -> Path:
        return self.place / "root"

    def run(self, *command: str, through: Sequence[str] | None = None) -> process.Result:
        """Start it, and wait. `through` replaces our first process."""
        with self._bundle(command, through) as (words, name):
            return process.run(*words, "run", "--bundle", self.place, name, timeout=LIMIT, check=False)

    def run_bare(self, *command: str) -> process.Result:
        """Like `run`, without a runtime, which would read the account files itself first."""
        proc = f"--mount-proc={self.root}/proc"
        apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child", proc)
        caller = {} if self.caller is None else {"SANDWRIGHT_USER": self.caller}
        words = (*apart, process.which("chroot"), str(self.root), "/init", self.account, *command)
        return process.run(*words, env={"PATH": "/bin", **caller}, timeout=LIMIT, check=False)

    @contextlib.contextmanager
    def started(self, *command: str) -> Iterator[tuple[subprocess.Popen[bytes], Sequence[object]]]:
        """Start it for the length of a `with`: the process, and the words of `kill`, without the signal."""
        with self._bundle(command, None) as (words, name):
            run = (*words, "run", "--bundle", self.place, name)
            with process.start(*map(str, run)) as running:
                yield running, (*words, "kill", name)

    @contextlib.contextmanager
    def at_a_terminal(self, *command: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
        """Start it at a terminal for the length of a `with`: the process, and the terminal's other end."""
        ours, theirs = pty.openpty()
        try:
            with self._bundle(command, None) as (words, name):
                run = (*words, "run", "--bundle", str(self.place), name)
                with process.start(*run, stdin=theirs, stdout=theirs, stderr=theirs) as running:
                    yield running, ours
        finally:
            os.close(ours)
            os.close(theirs)

    @contextlib.contextmanager
    def _bundle(
        self, command: Sequence[str], through: Sequence[str] | None
    ) -> Iterator[tuple[Sequence[str], str]]:
        name = f"sandwright-init-{uuid.uuid4().hex[:12]}"
        words = ("runc", "--root", str(self.place / "state"))
        first = ("/init", self.account) if through is None else tuple(through)
        (self.place / "config.json").write_text(json.dumps(self._config((*first, *command))))
        try:
            yield words, name
        finally:
            process.run(*words, "delete", "--force", name, timeout=LIMIT, check=False)

    def _config(self, args: Sequence[str]) -> dict[str, Any]:
        held = {kind: list(self.capabilities) for kind in ("bounding", "effective", "permitted")}
        caller = {} if self.caller is None else {"SANDWRIGHT_USER": self.caller}
        variables = [f"{name}={value}" for name, value in {**caller, **self.environment}.items()]
        uid, gid = self.user
        namespaces = [{"type": kind} for kind in ("mount", "pid", "ipc", "uts", "network")]
        if self.maps:
            namespaces.append({"type": "user"})
        mounts: list[dict[str, Any]] = [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["mode=755"]},
        ]
        if self.terminal:
            terminals = ["newinstance", "ptmxmode=0666", "mode=0620"]
            mounts.append(
                {"destination": "/dev/pts", "type": "devpts", "source": "devpts", "options": terminals}
            )
        for source, target in self.mounts:
            bind = {"destination": target, "type": "bind", "source": str(source), "options": ["rbind", "rw"]}
            mounts.append(bind)
        return {
            "ociVersion": "1.0.2",
            "process": {
                "terminal": self.terminal,
                "user": {"uid": uid, "gid": gid, "additionalGids": list(self.groups)},
                "args": list(args),
                "env": ["PATH=/bin", *variables],
                "cwd": "/",
                "capabilities": held,
                "noNewPrivileges": False,
            },
            "root": {"path": str(self.root), "readonly": self.read_only},
            "mounts": mounts,
            "linux": {"namespaces": namespaces, **self.maps},
        }


def container(place: Path) -> Container:
    """A new root, of Debian's busybox, with an account `agent` and its home."""
    root = place / "root"
    for name in ("bin", "dev", "etc", "home/agent/folder", "proc", "root", "tmp", "work"):
        (root / name).mkdir(parents=True)
    _copy(Path(process.which("busybox")), root / "bin/busybox")
    for applet in APPLETS:
        (root / "bin" / applet).symlink_to("busybox")
    (root / "init").write_bytes(init.program(_platform()))
    (root / "init").chmod(0o755)
    (root / "etc/passwd").write_text(PASSWD)
    (root / "etc/group").write_text(GROUP)
    (root / "home/agent/file").touch()
    (root / "home/agent/of-root").touch()
    (root / "home/agent/of-www").touch()
    own(root / "home/agent", root / "home/agent/file", root / "home/agent/folder", uid=1000, gid=1000)
    own(root / "home/agent/of-www", uid=33, gid=33)
    (root / "work").chmod(0o777)
    place.chmod(0o755)
    return Container(place)


def own(*paths: Path, uid: int, gid: int) -> None:
    """Change the owner of paths on the host."""
    for path in paths:
        os.chown(path, uid, gid, follow_symlinks=False)


def owner(path: Path) -> tuple[int, int]:
    """The owner of a path; of a link itself, not of its target."""
    found = path.lstat()
    return found.st_uid, found.st_gid


def _copy(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())
    target.chmod(0o755)


def _platform() -> str:
    from sandwright.host import collect_host  # noqa: PLC0415

    return collect_host().platform
