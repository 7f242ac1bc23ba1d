"""The command line of bubblewrap for a runtime configuration."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from sandwright.runtime.bwrap import _BwrapSession, bwrap_words

CONFIG: dict[str, Any] = {
    "process": {
        "user": {"uid": 1000, "gid": 1001},
        "args": ["/bin/tool", "--flag"],
        "env": ["PATH=/bin", "EMPTY=", "EQUALS=a=b"],
        "cwd": "/work",
    },
    "root": {"path": "/store/rootfs", "readonly": True},
    "hostname": "box",
    "mounts": [],
}
ISOLATION = [
    "--unshare-all",
    "--unshare-user",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
]


def _with(**changes: Any) -> dict[str, Any]:
    return {**CONFIG, **changes}


def test_the_whole_command_line() -> None:
    assert bwrap_words(CONFIG) == [
        *ISOLATION,
        *("--uid", "1000", "--gid", "1001", "--hostname", "box"),
        *("--ro-bind", "/store/rootfs", "/", "--remount-ro", "/"),
        *("--setenv", "PATH", "/bin", "--setenv", "EMPTY", "", "--setenv", "EQUALS", "a=b"),
        *("--chdir", "/work", "--", "/bin/tool", "--flag"),
    ]


def test_a_writable_root() -> None:
    words = bwrap_words(_with(root={"path": "/store/rootfs", "readonly": False}))
    assert words[words.index("--bind") :][:3] == ["--bind", "/store/rootfs", "/"]
    assert "--remount-ro" not in words


@pytest.mark.parametrize(
    ("mount", "words"),
    [
        pytest.param({"destination": "/proc", "type": "proc"}, ["--proc", "/proc"], id="proc"),
        pytest.param({"destination": "/dev", "type": "tmpfs"}, ["--dev", "/dev"], id="dev"),
        pytest.param({"destination": "/dev/shm", "type": "tmpfs"}, [], id="in-dev"),
        pytest.param({"destination": "/sys", "type": "sysfs"}, [], id="sysfs"),
        pytest.param({"destination": "/sys/fs/cgroup", "type": "cgroup"}, [], id="cgroup"),
        pytest.param(
            {"destination": "/tmp", "type": "tmpfs", "options": ["nosuid", "mode=1777", "size=64m"]},
            ["--perms", "1777", "--size", "67108864", "--tmpfs", "/tmp"],
            id="tmpfs",
        ),
        pytest.param(
            {"destination": "/run", "type": "tmpfs", "options": ["mode=755", "size=50%"]},
            ["--perms", "755", "--tmpfs", "/run"],
            id="share-of-memory",
        ),
        pytest.param(
            {"destination": "/x", "type": "tmpfs"}, ["--perms", "1777", "--tmpfs", "/x"], id="tmpfs-defaults"
        ),
        pytest.param(
            {"destination": "/data", "type": "bind", "source": "/host", "options": ["rbind", "ro"]},
            ["--ro-bind", "/host", "/data"],
            id="read-only-bind",
        ),
        pytest.param(
            {"destination": "/data", "type": "none", "source": "/host", "options": ["bind"]},
            ["--bind", "/host", "/data"],
            id="bind",
        ),
    ],
)
def test_mounts(mount: dict[str, Any], words: list[str]) -> None:
    without = bwrap_words(CONFIG)
    at = without.index("--remount-ro")
    assert bwrap_words(_with(mounts=[mount])) == [*without[:at], *words, *without[at:]]


@pytest.mark.parametrize(
    ("text", "bytes_"), [("10", "10"), ("65536k", "67108864"), ("1G", "1073741824")], ids=str
)
def test_sizes(text: str, bytes_: str) -> None:
    mount = {"destination": "/x", "type": "tmpfs", "options": [f"size={text}"]}
    words = bwrap_words(_with(mounts=[mount]))
    assert words[words.index("--size") + 1] == bytes_


@pytest.mark.skipif(os.geteuid() != 0, reason="the devices are root's")
@pytest.mark.needs("bwrap")
def test_a_program_of_root_can_not_change_devices_of_the_host(tmp_path: Path) -> None:
    device = Path("/dev/full")
    mode = device.stat().st_mode & 0o777
    config = {
        "process": {"args": ["/bin/chmod", "0662", str(device)], "user": {"uid": 0, "gid": 0}},
        "root": {"path": "/", "readonly": True},
        "mounts": [{"destination": "/dev"}],
    }
    session = _BwrapSession(as_user=False, scratch=tmp_path, stop=threading.Event())
    try:
        ended = subprocess.run(session._bwrap_command(config), capture_output=True, check=False)
        assert b"Read-only file system" in ended.stderr
        assert device.stat().st_mode & 0o777 == mode
    finally:
        device.chmod(mode)
