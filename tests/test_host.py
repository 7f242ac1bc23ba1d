"""The facts of a machine, read from files that represent other machines, and their round trip through JSON.

Tests of host.py.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from sandwright import process
from sandwright.errors import HostError
from sandwright.host import Binfmt, MachineFacts, collect_host, os_release

HOST = collect_host()

V1 = "30 20 0:5 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu\n"
V2 = "31 20 0:6 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
ROOT = "20 1 8:1 / / rw,relatime - ext4 /dev/vda rw\n"
AARCH64 = """enabled
interpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P
flags: POCF
offset 0
magic 7f454c460201010000000000000000000200b700
"""


def _machine(root: Path, **files: str) -> MachineFacts:
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return collect_host(root)


def test_this_machine() -> None:
    system = os.uname()
    assert (HOST.kernel, HOST.machine, HOST.uid) == (system.release, system.machine, os.getuid())
    assert HOST.is_root == (os.getuid() == 0)
    assert HOST.programs.get("unshare") == process.find("unshare")


def test_collecting_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        pytest.fail("a program was started")

    monkeypatch.setattr("subprocess.Popen", forbidden)
    collect_host()


def test_an_empty_machine(tmp_path: Path) -> None:
    facts = collect_host(tmp_path)
    assert (facts.cgroups, facts.binfmt, facts.distribution, facts.systemd) == ("none", (), "", False)
    assert (facts.surroundings, facts.container) == ("machine", "")
    assert not facts.user_namespaces


@pytest.mark.parametrize(
    ("mounts", "cgroups"),
    [
        pytest.param(ROOT, "none", id="none"),
        pytest.param(ROOT + V1, "v1", id="v1"),
        pytest.param(ROOT + V2, "v2", id="v2"),
        pytest.param(ROOT + V1 + V2, "hybrid", id="hybrid"),
        pytest.param("1 1 8:1 / /cgroup rw - ext4 /cgroup2 rw\n", "none", id="names-are-not-types"),
    ],
)
def test_cgroups(tmp_path: Path, mounts: str, cgroups: str) -> None:
    assert _machine(tmp_path, proc__self__mountinfo=mounts).cgroups == cgroups


@pytest.mark.parametrize(
    ("files", "surroundings", "container"),
    [
        pytest.param({"proc__version": "Linux version 6.1.0 (gcc)"}, "machine", "", id="machine"),
        pytest.param({".dockerenv": ""}, "container", "docker", id="docker"),
        pytest.param({"run__.containerenv": ""}, "container", "podman", id="podman"),
        pytest.param(
            {"run__systemd__container": "systemd-nspawn\n"}, "container", "systemd-nspawn", id="nspawn"
        ),
        pytest.param({"proc__1__environ": "PATH=/bin\0container=lxc\0"}, "container", "lxc", id="variable"),
        pytest.param(
            {"proc__1__cgroup": "0::/kubepods/besteffort/pod1\n"}, "container", "kubernetes", id="kubernetes"
        ),
        pytest.param(
            {"proc__version": "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016", ".dockerenv": ""},
            "gvisor",
            "",
            id="gvisor",
        ),
    ],
)
def test_surroundings(tmp_path: Path, files: dict[str, str], surroundings: str, container: str) -> None:
    facts = _machine(tmp_path, **files)
    assert (facts.surroundings, facts.container) == (surroundings, container)


def test_emulators(tmp_path: Path) -> None:
    binfmt = tmp_path / "proc/sys/fs/binfmt_misc"
    binfmt.mkdir(parents=True)
    (binfmt / "register").write_text("")
    (binfmt / "status").write_text("enabled\n")
    (binfmt / "qemu-aarch64").write_text(AARCH64)
    (binfmt / "qemu-x86_64").write_text(AARCH64.replace("POCF", "POC"))
    (binfmt / "python3.11").write_text("disabled\ninterpreter /usr/bin/python3.11\nflags: \noffset 0\n")
    facts = collect_host(tmp_path)
    qemu = "/usr/libexec/qemu-binfmt/aarch64-binfmt-P"
    assert facts.binfmt == (
        Binfmt("python3.11", False, "/usr/bin/python3.11", False),
        Binfmt("qemu-aarch64", True, qemu, True),
        Binfmt("qemu-x86_64", True, qemu, False),
    )
    assert facts.emulator("linux/arm64") == facts.binfmt[1]
    assert facts.emulator("linux/amd64") is None, "its interpreter would be looked for inside the root"
    assert facts.emulator("linux/riscv64") is None
    assert facts.emulator("nonsense") is None


def test_a_disabled_emulator_does_not_count(tmp_path: Path) -> None:
    facts = _machine(
        tmp_path, **{"proc/sys/fs/binfmt_misc/qemu-aarch64": AARCH64.replace("enabled", "disabled")}
    )
    assert facts.emulator("linux/arm64") is None


@pytest.mark.parametrize(
    ("uid", "changes", "allowed"),
    [
        pytest.param(1000, {}, True, id="user"),
        pytest.param(1000, {"max_user_namespaces": 0}, False, id="none-at-all"),
        pytest.param(0, {"max_user_namespaces": 0}, False, id="none-for-root-either"),
        pytest.param(1000, {"unprivileged_user_namespaces": False}, False, id="not-for-users"),
        pytest.param(0, {"unprivileged_user_namespaces": False}, True, id="but-for-root"),
        pytest.param(1000, {"apparmor_restricts_user_namespaces": True}, False, id="apparmor"),
    ],
)
def test_user_namespaces(uid: int, changes: dict[str, Any], allowed: bool) -> None:
    plain: dict[str, Any] = {
        "uid": uid,
        "max_user_namespaces": 100,
        "unprivileged_user_namespaces": True,
        "apparmor_restricts_user_namespaces": False,
    }
    assert dataclasses.replace(HOST, **{**plain, **changes}).user_namespaces is allowed


@pytest.mark.parametrize(
    ("machine", "architecture", "platform"),
    [
        ("x86_64", "amd64", "linux/amd64"),
        ("aarch64", "arm64", "linux/arm64"),
        ("arm64", "arm64", "linux/arm64"),
        ("loongarch64", "loongarch64", "linux/loongarch64"),
    ],
)
def test_architecture(machine: str, architecture: str, platform: str) -> None:
    facts = dataclasses.replace(HOST, machine=machine)
    assert (facts.architecture, facts.platform) == (architecture, platform)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param('ID=debian\nNAME="Debian 12"\n', {"ID": "debian", "NAME": "Debian 12"}, id="debian"),
        pytest.param("# c\n\nID='alpine'\nV=3.20\n", {"ID": "alpine", "V": "3.20"}, id="quotes"),
        pytest.param("nothing\n=x\n", {}, id="nonsense"),
        pytest.param("A=\n", {"A": ""}, id="empty"),
    ],
)
def test_os_release(text: str, values: dict[str, str]) -> None:
    assert os_release(text) == values


def test_distribution(tmp_path: Path) -> None:
    facts = _machine(tmp_path, **{"usr/lib/os-release": 'ID=ubuntu\nID_LIKE="debian other"\n'})
    assert (facts.distribution, facts.distribution_like) == ("ubuntu", ("debian", "other"))
    facts = _machine(tmp_path, **{"etc/os-release": "ID=local\n"})
    assert facts.distribution == "local", "/etc comes before /usr/lib"


def test_json_round_trip() -> None:
    data = json.loads(json.dumps(HOST.to_json()))
    assert MachineFacts.from_json(data) == HOST


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"more": 1}, "fields missing or not known: more", id="unknown"),
        pytest.param({"cgroups": "v3"}, "cgroups: 'v3' is not one of v1, v2, hybrid, none", id="choice"),
        pytest.param({"limits": {"nofile": 1}}, "cannot unpack non-iterable int object", id="limits"),
        pytest.param({"binfmt": [{"name": "x"}]}, "Binfmt.__init__", id="binfmt"),
        pytest.param({"programs": []}, "'list' object has no attribute 'items'", id="programs"),
    ],
)
def test_other_json_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(HostError) as error:
        MachineFacts.from_json({**HOST.to_json(), **change})
    assert str(error.value).startswith(f"host facts: {message}")


def test_a_missing_field_is_refused() -> None:
    data = HOST.to_json()
    del data["uid"]
    with pytest.raises(HostError, match=r"^host facts: fields missing or not known: uid$"):
        MachineFacts.from_json(data)
