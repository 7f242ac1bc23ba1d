"""The report of `sandwright doctor` on engines that refuse the user, on images, on runtimes with known
escapes.

Tests of methods/<name>/backend.py: preflights.
Tests of methods/bwrap/backend.py: the preflight, and missing requirements.
Tests of session/preflights.py: a finding is kept until something that it depends on changes.
Tests of session/doctor.py: the kind of machine.
"""

from __future__ import annotations

import os
import shlex
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from sandwright import process
from sandwright.host import collect_host
from sandwright.methods import registry
from sandwright.methods.bwrap.backend import explain_failure
from sandwright.methods.contract import Code, Preflight
from sandwright.methods.docker.backend import Docker
from sandwright.methods.podman.backend import Podman
from sandwright.methods.registry import backend
from sandwright.methods.shared.escapes import escapes
from sandwright.runtime.trial import Failed
from sandwright.session import doctor
from sandwright.session.doctor import diagnose, ladder, unreported_denials, with_untested_faults
from support.standby import COMMAND

ALL = "CVE-2025-31133, CVE-2025-52565, CVE-2025-52881"


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\nspec: 1.0.2-dev", True),
        ("runc version 1.1.15", True),
        ("runc version 1.2.7", True),
        ("runc version 1.2.8", False),
        ("runc version 1.2.10", False),
        ("runc version 1.3.2", True),
        ("runc version 1.3.3", False),
        ("runc version 1.4.0-rc.2", True),
        ("runc version 1.4.0-rc.3", False),
        ("runc version 1.4.0", False),
        ("runc version 2.0.0", False),
        ("crun version 1.8.1", False),
        ("runsc version 0.0~20221219.0", False),
        ("", False),
        ("runc version unknown", False),
    ],
)
def test_versions_with_known_escapes(said: str, known: bool) -> None:
    found = escapes(said)
    assert bool(found) is known
    if found is not None:
        message, remedy = found
        assert ALL in message
        assert said.split()[2] in message
        assert all(version in remedy for version in ("1.2.8", "1.3.3", "1.4.0"))


def test_what_a_run_is_not_told_of_is_said() -> None:
    """This concerns methods that start and can deny an access."""
    found = unreported_denials(
        [*(Preflight(name, "ready") for name in ("bwrap", "docker", "noop")), Preflight("vm", "not-started")]
    )
    assert found["bwrap"] == {}
    assert list(found) == ["bwrap", "docker"]
    assert set(found["docker"]) == {"calls", "sockets", "hosts", "paths"}
    assert found["docker"]["calls"].startswith("the runtime loads the filter")


@pytest.mark.parametrize("code", ["ready", "program-missing"])
def test_a_form_is_tried_where_its_method_does_not_start(code: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    """QEMU's machine hangs for 15 s on some hosts, and is not needed with User-Mode Linux."""
    tried: list[str] = []

    def found(name: str, *_: object, **__: object) -> Preflight:
        tried.append(name)
        return Preflight(name, code if name == "vm" else "not-started")

    monkeypatch.setattr(doctor, "_run_preflight", found)
    rest = {} if code != "ready" else {"vm-kvm": "vm", "vm-landlock": "vm"}
    assert diagnose().untried == rest
    assert sorted(tried) == sorted(set(registry.names()) - set(rest)), "each once"
    tried.clear()
    [named] = diagnose(methods=["vm-kvm"]).methods
    assert (named.method, tried) == ("vm-kvm", ["vm-kvm"]), "one that is named is tried"


@pytest.mark.needs("linux.uml", "bwrap")
def test_a_form_that_is_not_tried_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    [own] = diagnose(methods=["vm"]).methods
    said = process.run(*COMMAND, "doctor", timeout=120).text
    lines = ["not tried: vm-kvm, as vm starts (sandwright doctor --method vm-kvm)"] if own.ready else []
    assert [line for line in said.splitlines() if "vm-kvm" in line and line.startswith("not ")] == lines
    assert (" vm-kvm " in said) is not own.ready


def _program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def _first_on_path(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_ready_runtime_with_known_escapes_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for runc only reports its version: a real one of each version is unavailable."""
    _first_on_path(monkeypatch, tmp_path)
    monkeypatch.setenv("SANDWRIGHT_ROOTFS", str(tmp_path))
    host = collect_host()
    for version, known in (("1.1.5", True), ("1.3.3", False)):
        _program(tmp_path, "runc", f"echo runc version {version}")
        found = with_untested_faults(backend("oci"), Preflight("oci", "ready"), host)
        assert found.code == "ready"
        assert (ALL in found.message) is known, found
        assert ("1.3.3" in found.remedy) is known


@pytest.mark.needs("runc")
def test_the_version_is_the_programs_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SANDWRIGHT_ROOTFS", str(tmp_path))
    said = process.run("runc", "--version").text
    found = with_untested_faults(backend("oci"), Preflight("oci", "ready"), collect_host())
    assert bool(found.message) is bool(escapes(said))


@pytest.mark.parametrize("method", ["oci", "gvisor"])
def test_a_method_without_its_image_is_not_ready(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDWRIGHT_BUILD", str(tmp_path))
    monkeypatch.delenv("SANDWRIGHT_ROOTFS", raising=False)
    host = collect_host()
    found = with_untested_faults(backend(method), Preflight(method, "ready"), host)
    assert found.code == "image-missing"
    assert "debian" in found.message
    assert "sandwright build-images --name debian" in found.remedy
    index = tmp_path / "images" / "debian" / "index.json"
    index.parent.mkdir(parents=True)
    index.write_text("{}")
    assert with_untested_faults(backend(method), Preflight(method, "ready"), host).code == "ready"


@pytest.mark.parametrize("method", ["docker", "podman"])
def test_an_engine_without_the_image_is_not_ready(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is a stand-in with or without the image; `run` loads an image that was built here."""
    _first_on_path(monkeypatch, tmp_path)
    monkeypatch.setenv("SANDWRIGHT_BUILD", str(tmp_path / "build"))
    monkeypatch.delenv("SANDWRIGHT_ROOTFS", raising=False)
    host = collect_host()
    has = 'test "$1 $2 $5" = "image inspect sandwright/debian:latest" && {}; echo 5.0'
    for answer, code in (("exit 1", "image-missing"), ("echo 1 && exit", "ready")):
        _program(tmp_path, method, has.format(answer))
        found = with_untested_faults(backend(method), Preflight(method, "ready"), host)
        assert found.code == code
        assert ("sandwright build-images --name debian" in found.remedy) is (answer == "exit 1")
    _program(tmp_path, method, has.format("exit 1"))
    index = tmp_path / "build" / "images" / "debian" / "index.json"
    index.parent.mkdir(parents=True)
    index.write_text("{}")
    assert with_untested_faults(backend(method), Preflight(method, "ready"), host).code == "ready"


@pytest.mark.needs("runc")
def test_doctor_tells_of_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the real runc, the trial sandbox works, but a run would not."""
    monkeypatch.setenv("SANDWRIGHT_BUILD", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SANDWRIGHT_ROOTFS", raising=False)
    (found,) = diagnose(methods=("oci",)).methods
    assert found.code in ("image-missing", "cgroups", "not-started")
    assert found.code == "image-missing" or found.message


REFUSALS = [
    "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
    "Got permission denied while trying to connect to the Docker daemon socket: connect: permission denied",
]


@pytest.mark.parametrize("said", REFUSALS)
def test_a_daemon_that_turns_us_away_is_not_dead(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client is a stand-in, because no daemon refuses root; the next test has the real message."""
    _first_on_path(monkeypatch, tmp_path)
    _program(tmp_path, "docker", f"echo '{said}' >&2; exit 1")
    found = Docker().dead()
    assert found is not None
    assert found.code == "no-permission"
    assert "group docker" in found.remedy
    _program(tmp_path, "docker", "echo 'Cannot connect to the Docker daemon. Is it running?' >&2; exit 1")
    assert (Docker().dead() or found).code == "daemon-dead"


@pytest.mark.needs("docker", "setpriv")
@pytest.mark.skipif(os.geteuid() != 0, reason="another user is needed")
def test_what_the_real_client_says(tmp_path: Path) -> None:
    path = tmp_path / "s"
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as daemon:
        daemon.bind(str(path))
        daemon.listen()
        path.chmod(0o600)
        said = process.run(
            *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "docker", "version"),
            env={"PATH": os.environ["PATH"], "DOCKER_HOST": f"unix://{path}", "HOME": "/"},
            check=False,
            timeout=60,
        ).stderr
    assert "permission denied" in said


def _found(name: str, code: Code, message: str = "", remedy: str = "") -> Preflight:
    return Preflight(name, code, message, remedy)


def test_the_ladder_ends_with_what_starts() -> None:
    refused = ("the container refuses new namespaces", "start it with another profile")
    found = [
        _found("landlock", "ready"),
        _found("bwrap", "container-filter", *refused),
        _found("user", "ready"),
        *(
            _found(name, "program-missing", f"{name} is missing")
            for name in ("podman", "docker", "gvisor", "oci")
        ),
    ]
    rungs = ladder(found, "linux")
    assert [(each.method, each.starts) for each in rungs] == [
        *((name, False) for name in ("bwrap", "podman", "docker", "gvisor", "oci")), ("landlock", True),
    ]  # fmt: skip
    assert (rungs[0].why, rungs[0].change) == refused
    assert ladder([_found("bwrap", "ready"), *found], "linux")[0].method == "bwrap"
    assert [each.method for each in ladder([*found, _found("bwrap", "ready")], "linux")] == ["bwrap"]
    nothing = ladder([*found, _found("landlock", "kernel-lacks", "version 3")], "linux")
    assert not any(each.starts for each in nothing)


@pytest.mark.parametrize(
    ("architecture", "path", "content", "kind"),
    [
        ("x86_64", "proc/cpuinfo", "flags : fpu hypervisor lahf_lm", "virtual machine"),
        ("x86_64", "proc/cpuinfo", "flags : fpu lahf_lm", "bare machine"),
        ("aarch64", "proc/device-tree/compatible", "linux,dummy-virt\0", "virtual machine"),
        ("aarch64", "sys/class/dmi/id/sys_vendor", "QEMU\n", "virtual machine"),
        ("aarch64", "proc/cpuinfo", "Features : fp asimd", "machine"),
    ],
)
def test_the_kind_of_machine(architecture: str, path: str, content: str, kind: str, tmp_path: Path) -> None:
    """On arm64, /proc/cpuinfo does not tell of a hypervisor: QEMU's machine was called a bare one."""
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(content)
    host = replace(collect_host(), machine=architecture, surroundings="machine")
    assert doctor.surroundings(host, tmp_path).kind == kind


def test_apparmors_restriction_names_the_profile_that_ships() -> None:
    """It can't be tried here: no kernel of these tests has AppArmor."""
    host = replace(collect_host(), apparmor_restricts_user_namespaces=True, uid=1000, surroundings="machine")
    code, _, remedy = explain_failure(
        Failed("not-started", "bwrap: setting up uid map: Permission denied"), host
    )
    assert code == "namespaces-restricted"
    install, load = remedy.split(" && ")
    *words, shipped, folder = shlex.split(install)  # the path of this clone may contain blanks
    profile = Path(shipped)
    assert (words, folder) == (["sudo", "install", "-m", "644"], "/etc/apparmor.d/")
    assert load == "sudo apparmor_parser -r /etc/apparmor.d/sandwright-bwrap"
    lines = [line for line in profile.read_text().splitlines() if line and not line.startswith("#")]
    assert lines == [
        "abi <abi/4.0>,",
        "include <tunables/global>",
        "profile sandwright-bwrap /usr/bin/bwrap flags=(unconfined) {",
        "  userns,",
        "}",
    ]


@pytest.mark.needs("podman", "runc")
def test_what_podmans_networks_lack_without_root_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """It starts, because the trial has no network; a proxy would not."""
    here = collect_host()
    for names, uid, device, said in (
        ({}, 0, "/dev/null", ""),
        ({"pasta": "/usr/bin/pasta"}, 1000, "/dev/null", ""),
        ({}, 1000, "/dev/null", "without root a network needs slirp4netns (Podman 4) or pasta (Podman 5)"),
        (
            {"slirp4netns": "/usr/bin/slirp4netns"},
            1000,
            "/dev/net/none",
            "without root a network needs /dev/net/none, which this user may not open",
        ),
    ):
        monkeypatch.setattr("sandwright.methods.podman.backend.TUN", device)
        programs = {k: v for k, v in here.programs.items() if k not in ("slirp4netns", "pasta")}
        host = replace(here, uid=uid, package_manager="apt", programs={**programs, **names})
        found = Podman().preflight(host, limit=60)
        assert found.ready, found
        assert found.message == said
        if said:
            helps = (
                "let this user write /dev/net/none" if names else "get it with: apt-get install slirp4netns"
            )
            assert found.remedy == helps


def test_known_escapes_hide_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _program(tmp_path, "runc", "echo runc version 1.1.5")
    _first_on_path(monkeypatch, tmp_path)
    monkeypatch.setenv("SANDWRIGHT_ROOTFS", str(tmp_path))
    found = with_untested_faults(
        backend("oci"), Preflight("oci", "ready", "a message", "a way out"), collect_host()
    )
    assert ALL in found.message
    assert found.message.endswith("; a message")
    assert found.remedy.endswith("; a way out")


@pytest.mark.needs("podman", "runc")
def test_podman_is_asked_for_its_runtime_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request takes longer than a container's start, and was repeated by the next doctor."""
    log, real = tmp_path / "log", process.which("podman")
    _program(tmp_path, "podman", f'echo "$1" >>{log}; exec {real} "$@"')
    _first_on_path(monkeypatch, tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SANDWRIGHT_BUILD", str(tmp_path / "build"))
    index = tmp_path / "build" / "images" / "debian" / "index.json"
    index.parent.mkdir(parents=True)
    index.write_text("{}")
    for times in (1, 1):
        [found] = diagnose(methods=["podman"]).methods
        assert found.ready, found
        assert log.read_text().split().count("info") == times
    assert log.read_text().split().count("load") + log.read_text().split().count("run") >= 1
    monkeypatch.setenv("CONTAINERS_CONF_OVERRIDE", str(tmp_path / "none.conf"))
    (tmp_path / "none.conf").touch()
    diagnose(methods=["podman"])
    assert log.read_text().split().count("info") == 2, "another configuration may name another runtime"


@pytest.mark.parametrize(
    ("system", "version", "said"),
    [
        ("linux", 0, "Landlock is off: squid"),
        ("linux", 3, "Landlock has version 3: ports"),
        ("linux", 4, ""),
        ("darwin", 4, "because this system has no Landlock"),
    ],
)
def test_what_is_not_held_of_the_host_s_parsers(
    monkeypatch: pytest.MonkeyPatch, system: str, version: int, said: str
) -> None:
    monkeypatch.setattr(doctor, "landlock_version", lambda: version)
    found = "; ".join(doctor.unrestricted(system))
    assert said in found
    assert bool(found) == bool(said)


def test_a_directory_that_cannot_be_made_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The methods are still tried."""
    before = diagnose(methods=["noop"])
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    found = diagnose(methods=["noop"])
    assert found.methods == before.methods
    assert [each for each in found.surroundings.restrictions if "/proc/none" in each] == [
        "nothing can start: cannot create /proc/none/sandwright/sessions: No such file or directory; "
        "set XDG_CACHE_HOME to a directory that this user can write"
    ]
