"""The same for the other methods: each restriction of a runtime, an engine or a profile has its probes.

Tests of verify/catalogue/limits.py.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandwright import process, user_dirs
from sandwright.launcher.plan import LaunchPlan
from sandwright.verify.prove import Weaken, prove
from sandwright.verify.simulate import simulate
from sandwright.verify.subject import ProofSubject
from sandwright.verify.verdict import Verdict
from support.proving import Prove, red, resolver
from support.thorough import THOROUGH
from support.weakening import Artifacts, configuration, group_id, plan, probes, replaced, several, together

POLICY = """\
schema: 1
method: oci
filesystem: {write: [$PROJECT]}
network: {mode: none}
environment: {pass: [TERM, "LC_*"], set: {CI: "1"}}
resources: {files: 256, pids: 64, memory: 128MiB}
"""
PLAIN = POLICY.replace("resources: {files: 256, pids: 64, memory: 128MiB}\n", "")


def _without_mount(target: str) -> Weaken:
    def edit(subject: ProofSubject, config: dict[str, Any]) -> None:
        path = target.format(read=subject.fixture.read, write=subject.fixture.write)
        config["mounts"] = [each for each in config["mounts"] if each["destination"] != path]

    return configuration(edit)


def _without_namespace(kind: str) -> Weaken:
    def edit(_: ProofSubject, config: dict[str, Any]) -> None:
        spaces = config["linux"]["namespaces"]
        config["linux"]["namespaces"] = [each for each in spaces if each["type"] != kind]

    return configuration(edit)


def _without_users(_: ProofSubject, config: dict[str, Any]) -> None:
    linux = config["linux"]
    linux["namespaces"] = [each for each in linux["namespaces"] if each["type"] != "user"]
    del linux["uidMappings"], linux["gidMappings"]


def _in_the_hosts(kind: str) -> Weaken:
    """Remove a namespace, and the user namespace: the kernel lets only the owning one mount its files."""
    return several(configuration(_without_users), _without_namespace(kind))


def _without_limit(kind: str) -> Weaken:
    def edit(_: ProofSubject, config: dict[str, Any]) -> None:
        limits = config["process"]["rlimits"]
        config["process"]["rlimits"] = [each for each in limits if each["type"] != kind]

    return configuration(edit)


def _with_capability(_: ProofSubject, config: dict[str, Any]) -> None:
    for kind in ("bounding", "effective", "permitted"):
        config["process"]["capabilities"][kind] = ["CAP_CHOWN"]


def _granting_bpf(_: ProofSubject, config: dict[str, Any]) -> None:
    rule = {"names": ["bpf"], "action": "SCMP_ACT_ALLOW"}
    config["linux"]["seccomp"]["syscalls"].insert(0, rule)


OCI: dict[str, tuple[Weaken, str]] = {
    "a denied directory": (
        _without_mount("{read}/denied"),
        "files/denied-directory links/dots links/hard links/symbolic-to-denied links/through-proc",
    ),
    "a denied file": (_without_mount("{read}/denied-file"), "files/denied-file"),
    "a read-only directory": (
        _without_mount("{write}/kept"), "files/read-only-in-writable links/move-restricted",
    ),
    "a pin": (_without_mount("{write}/deep"), "links/exchange links/move-parent"),
    "dropped capabilities": (configuration(_with_capability), "processes/chown processes/status"),
    "no new privileges": (
        configuration(lambda _, config: config["process"].update(noNewPrivileges=False)), "processes/status",
    ),
    "the namespace of IPC": (_in_the_hosts("ipc"), "processes/inside processes/root"),
    "the namespace of host names": (
        several(_without_namespace("uts"), configuration(lambda _, config: config.pop("hostname"))),
        "processes/inside",
    ),
    "the namespace of users": (configuration(_without_users), "processes/root"),
    "the namespace of processes": (
        _in_the_hosts("pid"),
        "environment/first-process environment/open-directories"
        " processes/inside processes/outside processes/root",
    ),
    "the namespace of networks": (
        _in_the_hosts("network"),
        "network/abstract-socket network/host-address network/host-loopback network/interfaces"
        " network/outside processes/host-interfaces processes/inside processes/root",
    ),
    "read-only settings of the kernel": (
        configuration(lambda _, config: config["linux"]["readonlyPaths"].remove("/proc/sys")),
        "processes/kernel-settings",
    ),
    "a masked directory": (
        configuration(lambda _, config: config["linux"]["maskedPaths"].remove("/sys/firmware")),
        "processes/kernel-hidden",
    ),
    "a refusal of bpf": (configuration(_granting_bpf), "syscalls/bpf"),
    "the limit of files": (_without_limit("RLIMIT_NOFILE"), "limits/files"),
    "no core files": (_without_limit("RLIMIT_CORE"), "limits/core"),
    "the limit of processes": (
        configuration(lambda _, config: config["linux"]["resources"].pop("pids")), "limits/pids",
    ),
    "the limit of memory": (
        configuration(lambda _, config: config["linux"]["resources"].pop("memory")), "limits/memory",
    ),
    "a variable": (
        configuration(lambda _, config: config["process"]["env"].remove("CI=1")), "environment/set",
    ),
}  # fmt: skip


ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="without root, fewer probes can be tried in runc")


@pytest.fixture
def bystander() -> Iterator[None]:
    """A host process without rights that has its root directory open, for a sandbox with the host's."""
    without = ("--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all")
    with process.start("setpriv", *without, "sh", "-c", "exec 9</; echo up; exec sleep 600") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"up\n"
        yield


@ROOT
@pytest.mark.needs("runc", "cc", "setpriv")
@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("names", together(OCI), ids=group_id)
def test_restrictions_less_of_a_runtime(names: list[str], prove_with: Prove) -> None:
    weakened = several(*(OCI[name][0] for name in names))
    assert set(prove_with("oci", POLICY, weakened)) == probes(OCI, names)


@ROOT
@pytest.mark.needs("runc", "cc")
def test_a_runtime_is_green(prove_with: Prove) -> None:
    timed = POLICY.replace("files: 256", "files: 256, time: 30s")
    assert prove_with("oci", timed, runs=True) == {}


@ROOT
@pytest.mark.needs("runc")
def test_a_denied_name_that_is_not_watched(tmp_path: Path) -> None:
    weaken = plan(lambda _, whole: replace(whole, denied_names=()))
    proof = prove(resolver(PLAIN, tmp_path / "project"), "oci", weaken=weaken, secrets=False)
    red = {each.probe for each in proof.outcomes if each.verdict is not Verdict.PASS}
    assert red - {"links/git: not held"} == {"lifecycle/denied-later"}


@ROOT
@pytest.mark.needs("runc", "cc")
@pytest.mark.parametrize("weakened", [False, True])
def test_an_empty_file_of_the_image_is_not_taken_for_its_mask(weakened: bool, prove_with: Prove) -> None:
    """The root that `verify` makes has an empty file there."""
    policy = POLICY.replace("{write: [$PROJECT]}", "{write: [$PROJECT], deny: [/etc/machine-id]}")
    unmasked = configuration(lambda _, config: config["linux"]["maskedPaths"].remove("/etc/machine-id"))
    assert set(prove_with("oci", policy, unmasked if weakened else None)) == (
        {"files/deny: /etc/machine-id"} if weakened else set()
    )


@ROOT
@pytest.mark.needs("runc", "cc")
def test_a_denied_tmp_has_the_flags_of_the_runtime() -> None:
    """runc covers a directory without a mount by its own empty read-only file system."""
    policy = POLICY.replace("{write: [$PROJECT]}", "{write: [$PROJECT], deny: [/tmp]}")
    with tempfile.TemporaryDirectory(prefix="sandwright-test-", dir="/var/tmp") as base:
        assert red("oci", policy, Path(base, "project"), None, runs=False) == {}


@pytest.mark.needs("runsc", "cc")
def test_gvisor_is_green(prove_with: Prove) -> None:
    assert prove_with("gvisor", PLAIN, runs=True) == {}


GVISOR: dict[str, tuple[Weaken, str]] = {
    "a denied file": (_without_mount("{read}/denied-file"), "files/denied-file"),
    "a variable": (
        configuration(lambda _, config: config["process"]["env"].remove("CI=1")), "environment/set",
    ),
}  # fmt: skip


@pytest.mark.needs("runsc", "cc")
@pytest.mark.parametrize("names", together(GVISOR), ids=group_id)
def test_restrictions_less_of_gvisor(names: list[str], prove_with: Prove) -> None:
    weakened = several(*(GVISOR[name][0] for name in names))
    assert set(prove_with("gvisor", PLAIN, weakened)) == probes(GVISOR, names)


def _appended(rule: str) -> Weaken:
    """An additional rule at the end of the Seatbelt profile, where the last one decides."""

    def weaken(subject: ProofSubject, artifacts: Artifacts) -> Artifacts:
        text = rule.format(read=f"/private{subject.fixture.read}", write=f"/private{subject.fixture.write}")
        return replaced(artifacts, "profile.sb", lambda content: content + text.encode() + b"\n")

    return weaken


PROFILE: dict[str, tuple[Weaken, str]] = {
    "a denied directory": (
        _appended('(allow file-read* (subpath "{read}/denied"))'),
        "files/denied-directory links/dots links/symbolic-to-denied",
    ),
    "a denied file": (_appended('(allow file-read* (literal "{read}/denied-file"))'), "files/denied-file"),
    "a read-only file": (
        _appended('(allow file-write-data (literal "{write}/kept-file"))'), "files/read-only-in-writable",
    ),
    "moving what is restricted": (
        _appended('(allow file-write-unlink (literal "{write}/deep"))'), "links/move-parent",
    ),
    "the network": (
        _appended('(allow network-outbound (remote tcp "*:443"))'), "network/outside",
    ),
    "a socket": (
        _appended('(allow network-outbound (literal "{read}/socket"))'), "network/unix-socket",
    ),
    "links in a Git directory": (
        _appended('(allow file-write-create (require-all (vnode-type SYMLINK) (subpath "{write}/.git")))'),
        "links/git",
    ),
}  # fmt: skip
_NOT_HELD = "links/git: not held"
"""The claim that a link is moved into a Git directory."""


@pytest.mark.parametrize("policy", [PLAIN, "extends: [strict]\n"] if THOROUGH else [PLAIN])
def test_the_profile_of_seatbelt_is_green_as_simulated(policy: str, tmp_path: Path) -> None:
    proof = simulate(resolver(policy, tmp_path / "project"), "seatbelt")
    assert {each.probe for each in proof.outcomes if each.verdict is not Verdict.PASS} == {_NOT_HELD}
    assert len(proof.outcomes) > 30
    assert all(each.simulated for each in proof.outcomes)


def test_a_home_below_the_link_at_macos_root_is_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`/home` is a link on macOS, and a directory here."""
    monkeypatch.setenv("HOME", "/home/nobody")
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))  # nothing is created there
    monkeypatch.setattr(user_dirs, "keys", lambda: str(tmp_path / "keys"))
    proof = simulate(resolver(PLAIN, tmp_path / "project"), "seatbelt")
    assert {each.probe for each in proof.outcomes if each.verdict is not Verdict.PASS} == {_NOT_HELD}


@pytest.mark.parametrize("names", together(PROFILE), ids=group_id)
def test_rules_more_of_a_profile(names: list[str], tmp_path: Path) -> None:
    weakened = several(*(PROFILE[name][0] for name in names))
    proof = simulate(resolver(PLAIN, tmp_path / "project"), "seatbelt", weaken=weakened)
    seen = {each.probe for each in proof.outcomes if each.verdict is not Verdict.PASS}
    assert seen == {_NOT_HELD, *probes(PROFILE, names)}


def _argument(old: str, *new: str) -> Weaken:
    """Replace an option of `docker run` by others."""

    def change(_: ProofSubject, whole: LaunchPlan) -> LaunchPlan:
        changed = [word for each in whole.engine.options for word in (new if each == old else (each,))]
        return replace(whole, engine=replace(whole.engine, options=tuple(changed)))

    return plan(change)


ENGINE: dict[str, tuple[Weaken, str]] = {
    "dropped capabilities": (
        _argument("--cap-drop=ALL", "--cap-drop=ALL", "--cap-add=CHOWN"), "processes/status",
    ),
    "no new privileges": (
        _argument("--security-opt=no-new-privileges", "--security-opt=label=disable"), "processes/status",
    ),
    "a root that is read-only": (_argument("--read-only", "--read-only=false"), "files/root"),
    "the network's absence": (_argument("--network=none", "--network=host"), "network/host-loopback"),
    "no core files": (_argument("--ulimit=core=0:0", "--ulimit=core=1:1"), "limits/core"),
    "a variable": (_argument("--env=CI=1", "--env=CI=2"), "environment/set"),
}  # fmt: skip


@pytest.mark.needs("docker", "cc")
@pytest.mark.parametrize("names", together(ENGINE), ids=group_id)
def test_options_less_of_an_engine(names: list[str], prove_with: Prove) -> None:
    """The engine may make further probes fail, but only in the same families and in `processes`."""
    red = probes(ENGINE, names)
    found = set(prove_with("docker", PLAIN, several(*(ENGINE[name][0] for name in names))))
    assert red <= found
    families = {name.split("/")[0] for name in found}
    assert families <= {each.split("/", maxsplit=1)[0] for each in red} | {"processes"}


@pytest.mark.needs("docker", "cc")
def test_docker_is_green(prove_with: Prove) -> None:
    assert prove_with("docker", POLICY.replace("files: 256", "files: 256, time: 30s"), runs=True) == {}


@pytest.mark.needs("podman", "cc")
def test_podman_is_green(prove_with: Prove) -> None:
    assert prove_with("podman", PLAIN, runs=True) == {}
