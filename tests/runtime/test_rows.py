"""The rows of the table, as far as a test can check them without a start.

Tests of runtime/registry.py.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from sandwright.host import Binfmt, MachineFacts
from sandwright.runtime.contract import Variant
from sandwright.runtime.registry import RUNTIMES
from sandwright.runtime.runsc import without_user_namespace

ARM = Binfmt("qemu-aarch64", True, "/usr/bin/qemu-aarch64-static", True)
HYBRID = "in a mount namespace without cgroup2, since it refuses hybrid cgroups"


def _facts(host: MachineFacts, **changes: Any) -> MachineFacts:
    plain: dict[str, Any] = {
        "os": "linux",
        "machine": "x86_64",
        "uid": 0,
        "binfmt": (ARM,),
        "cgroups": "v2",
        "max_user_namespaces": 100,
    }
    return dataclasses.replace(host, **{**plain, **changes})


def test_the_table() -> None:
    assert list(RUNTIMES) == ["runc", "crun", "runsc", "bwrap", "docker", "podman"]
    assert all(row.name == name for name, row in RUNTIMES.items())


@pytest.mark.parametrize("name", [name for name in RUNTIMES if name != "docker"])
def test_only_linux_has_runtimes(name: str, host: MachineFacts) -> None:
    mac = _facts(host, os="darwin")
    assert RUNTIMES[name].obstacle(mac, "linux/amd64") == "it runs on Linux only; this is darwin"


@pytest.mark.parametrize(
    ("name", "platform", "binfmt", "obstacle"),
    [
        ("runc", "linux/amd64", (), ""),
        ("runc", "linux/arm64", (ARM,), ""),
        ("runc", "linux/arm64", (), "no interpreter for linux/arm64"),
        ("crun", "linux/arm64", (), "no interpreter for linux/arm64"),
        ("bwrap", "linux/arm64", (), "no interpreter for linux/arm64"),
        ("podman", "linux/arm64", (), "no interpreter for linux/arm64"),
        ("docker", "linux/arm64", (), "no interpreter for linux/arm64"),
        ("docker", "linux/arm64", (ARM,), ""),
        ("runsc", "linux/amd64", (), ""),
        (
            "runsc",
            "linux/arm64",
            (ARM,),
            "gVisor runs only programs of this machine's own architecture, amd64",
        ),
    ],
)
def test_obstacles(
    name: str, platform: str, binfmt: tuple[Binfmt, ...], obstacle: str, host: MachineFacts
) -> None:
    found = RUNTIMES[name].obstacle(_facts(host, binfmt=binfmt), platform)
    assert found.startswith(obstacle)
    assert bool(found) == bool(obstacle)


def test_bwrap_where_user_namespaces_are_switched_off(host: MachineFacts) -> None:
    facts = _facts(host, uid=1000, max_user_namespaces=0)
    assert "user namespaces are switched off" in RUNTIMES["bwrap"].obstacle(facts, "linux/amd64")


@pytest.mark.parametrize(
    ("name", "changes", "notes"),
    [
        ("runc", {}, [""]),
        ("runc", {"uid": 1000}, ["without root, with one id mapped"]),
        ("crun", {}, [""]),
        ("crun", {"cgroups": "hybrid"}, [HYBRID]),
        ("crun", {"uid": 1000}, ["without root, with one id mapped"]),
        ("bwrap", {"uid": 1000}, [""]),
    ],
)
def test_variants(name: str, changes: dict[str, Any], notes: list[str], host: MachineFacts) -> None:
    variants = RUNTIMES[name].variants(_facts(host, **changes))
    assert [variant.note for variant in variants] == notes
    assert [variant.only_root for variant in variants] == [note.startswith("without root") for note in notes]


def test_bwrap_prefers_the_images_own_user(host: MachineFacts) -> None:
    first, second = RUNTIMES["bwrap"].variants(_facts(host))
    assert (first.note, second.note.startswith("as root")) == (
        "as the image's user, from a separate mount namespace",
        True,
    )


def test_kvm_is_the_last_resort(host: MachineFacts) -> None:
    variants = RUNTIMES["runsc"].variants(_facts(host))
    assert [v.options[0] for v in variants] == ["--platform=systrap", "--platform=ptrace", "--platform=kvm"]
    assert all("--network=none" in v.options for v in variants)
    assert RUNTIMES["runsc"].variants(_facts(host, uid=1000))[0].options[0] == "--rootless"


def test_gvisor_without_root_makes_its_own_user_namespace() -> None:
    linux = {
        "namespaces": [{"type": "mount"}, {"type": "user"}, {"type": "pid"}],
        "uidMappings": [{"containerID": 0, "hostID": 1000, "size": 1}],
        "gidMappings": [{"containerID": 0, "hostID": 1000, "size": 1}],
        "maskedPaths": ["/proc/kcore"],
    }
    config = {"root": {"path": "/x"}, "linux": linux}
    adapted = without_user_namespace(Variant(options=("--rootless",)), config)
    assert adapted == {
        "root": {"path": "/x"},
        "linux": {"namespaces": [{"type": "mount"}, {"type": "pid"}], "maskedPaths": ["/proc/kcore"]},
    }
    assert without_user_namespace(Variant(), config) == config
