"""The first process in the namespaces of a test cluster: `python node.py FOLDER`.

Its mounts, network and processes are separate, so that all of them end with this process; it ends when its
standard input does. `start.json` lists the programs to start; their output goes to `logs/NAME`. A file
`NAME.restart` ends a program, and starts it again after the number of seconds in the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_MS_REC, _MS_SHARED, _MS_PRIVATE = 0x4000, 0x100000, 0x40000  # linux/mount.h
_POLL = 0.2


class Parts:
    """The programs that run here, by name."""

    def __init__(self, folder: Path, commands: dict[str, list[str]], environment: dict[str, str]) -> None:
        self.folder = folder
        self.commands = commands
        self.environment = environment
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        with (self.folder / "logs" / name).open("ab") as log:
            words = self.commands[name]
            self.running[name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment, cwd=self.folder
            )

    def restart_asked(self) -> None:
        for name in self.commands:
            asked = self.folder / f"{name}.restart"
            if asked.exists():
                seconds = float(asked.read_text() or 0)
                self.running[name].kill()
                self.running[name].wait()
                time.sleep(seconds)
                self.start(name)
                asked.unlink()

    def reap(self) -> None:
        """Wait for orphaned processes; write to `ended` which part has ended."""
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                part = next((each for each in self.running.items() if each[1].pid == found.si_pid), None)
                if part is None:
                    os.waitpid(found.si_pid, 0)
                    continue
                part[1].wait()
                (self.folder / "ended").write_text(f"{part[0]} ended with {part[1].returncode}")
                return


def _mount(target: str, flags: int, *, kind: bytes | None = None) -> None:
    if _LIBC.mount(kind or b"none", os.fsencode(target), kind, flags, None) != 0:
        raise OSError(ctypes.get_errno(), f"{target} can't be mounted")


def _await(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(_POLL)


def main(folder: Path) -> None:
    data = json.loads((folder / "start.json").read_text())
    _mount("/", _MS_REC | _MS_PRIVATE)
    _mount("/", _MS_REC | _MS_SHARED)
    _mount("/run", 0, kind=b"tmpfs")
    Path("/run/etcd").mkdir()
    while subprocess.run(["ip", "link", "show", "eth0"], capture_output=True, check=False).returncode != 0:
        time.sleep(_POLL)
    for command in data["network"]:
        subprocess.run(command, check=True, timeout=10)
    parts = Parts(folder, data["commands"], data["environment"])
    for name in data["commands"]:
        if name == "kubelet":  # it ends without containerd
            _await(Path("/run/containerd/containerd.sock"))
        parts.start(name)
    (folder / "started").touch()
    while not select.select([0], [], [], _POLL)[0]:
        parts.restart_asked()
        parts.reap()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
