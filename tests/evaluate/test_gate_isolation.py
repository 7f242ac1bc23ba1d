"""Artifacts that leave a sandbox more of its surroundings than the policy permits are refused.

Namespaces, capabilities, devices, hooks, masks, links, the default action of a filter, and options that the
readers don't know.

Tests of evaluate/explain/isolation.py: namespaces, capabilities, devices.
Tests of evaluate/explain/shape.py: keys that a reader does not know.
"""

# A row of a table is a line, however long.
# ruff: noqa: PLR0917

from __future__ import annotations

import dataclasses
import struct

import pytest

from sandwright import Policy
from sandwright.errors import ArtifactsTooWide, UsageError
from sandwright.evaluate.explain.enclosure import Enclosure
from sandwright.evaluate.isolation import exposures
from sandwright.methods import METHODS, registry
from sandwright.methods.contract import Method
from sandwright.policy.facts import HostEntry
from sandwright.policy.hidden import hidden_paths
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.seccomp.abi import Abi, numbers
from support.gateplants import FACTS, FAULTY, FAULTY_FACTS, PROJECT, check_planted, faulty_policy, policy_for

KNOWN = "is unknown: the artifact is not used"
BWRAP = [
    ("bwrap", "args", "--unshare-pid\0", "", "namespace pid of the host"),
    ("bwrap", "args", "--unshare-user\0", "", "namespace user of the host"),
    ("bwrap", "args", "--unshare-cgroup-try\0", "", "namespace cgroup of the host"),
    (
        "bwrap",
        "args",
        "--cap-drop\0ALL\0",
        "--cap-drop\0ALL\0--cap-add\0CAP_SYS_ADMIN\0",
        "capability SYS_ADMIN: denied by process.sandbox_root: false",
    ),
    ("bwrap", "args", "--cap-drop\0ALL\0", "", "capability ALL"),
    (
        "bwrap",
        "args",
        "--tmpfs\0/tmp\0",
        f"--tmpfs\0/tmp\0--symlink\0/home/u/.ssh\0{PROJECT}/x\0",
        f"link {PROJECT}/x to /home/u/.ssh",
    ),
    ("bwrap", "args", "--ro-bind-try\0/proc/sys\0/proc/sys\0", "", "write /proc/sys"),
    ("bwrap", "args", "--new-session\0", "--share-net\0", KNOWN),
    ("vm", "args", "--unshare-ipc\0", "", "namespace ipc of the host"),
    ("user", "plan", "try\0/proc/sys\0", "", "write /proc/sys"),
    ("vm-landlock", "rules", "hide\0/home/u/.ssh\0", "read\0/home/u/.ssh\0", "read /home/u/.ssh"),
    ("vm-landlock", "rules", "hide\0/home/u/.ssh\0", "", "read /home/u/.ssh"),
    ("vm-landlock", "rules", "read\0/\0", "write\0/\0", "write /: denied by read /"),
]
OPTIONS = {
    "--privileged": KNOWN,
    "--cap-add=SYS_ADMIN": "capability SYS_ADMIN",
    "--cap-add=ALL": "capability ALL",
    "--device=/dev/sda": KNOWN,
    "--pid=host": KNOWN,
    "--uts=host": KNOWN,
    "--userns=host": KNOWN,
    "--security-opt=seccomp=unconfined": KNOWN,
    "--security-opt=apparmor=unconfined": KNOWN,
    "--security-opt=systempaths=unconfined": "masks of /proc and /sys (systempaths=unconfined)",
    "--volume=/srv:/x": "write /x: denied by read /",
    "--volume=/srv:/x:ro,rshared": KNOWN,
    "--volume=name:/x": KNOWN,
    "--volume=/srv": KNOWN,
    "--volumes-from=other": KNOWN,
    "--mount=type=volume,src=name,dst=/x": KNOWN,
    "--mount=type=bind,src=/opt,dst=/opt,readonly,bind-propagation=rshared": KNOWN,
    "--env-file=/srv/secrets": KNOWN,
    "--gpus=all": KNOWN,
}
"""Options in place of `--rm`, which has no effect on isolation."""
DROPPED = {
    "--read-only": "write the image's root",
    "--ipc=private": "namespace ipc of the host",
    "--cgroupns=private": "namespace cgroup of the host",
    "--cap-drop=ALL": "capability those that the engine gives by default",
    "--security-opt=no-new-privileges": "set-user-id programs: denied by process.sandbox_root: false",
}
ENGINES = [
    (engine, "launch.plan", f"{old}\0", f"{new}\0", case)
    for engine in ("docker", "podman")
    for old, new, case in (
        *(("--rm", option, case) for option, case in OPTIONS.items()),
        *((option, "--rm", case) for option, case in DROPPED.items()),
    )
]
ENGINES += [
    ("docker", "launch.plan", "nosuid,nodev,mode=1777", "mode=1777", KNOWN),
    ("podman", "launch.plan", "nosuid,nodev,mode=1777", "nosuid,mode=1777", KNOWN),
    ("docker", "launch.plan", "--rm\0", "--env=AWS_SECRET_ACCESS_KEY\0", "env AWS_SECRET_ACCESS_KEY"),
    ("docker", "compose.yaml", "nosuid,nodev,mode=1777", "mode=1777", KNOWN),
]
_ROOT, _SECCOMP = "    read_only: true\n    ipc", '    - "seccomp:./seccomp.json"\n'
COMPOSE = [
    (
        "docker",
        "compose.yaml",
        _ROOT,
        "    privileged: true\n    read_only: true\n    ipc",
        f"services.sandbox.privileged: {KNOWN}",
    ),
    (
        "docker",
        "compose.yaml",
        _ROOT,
        "    pid: host\n    read_only: true\n    ipc",
        f"services.sandbox.pid: {KNOWN}",
    ),
    (
        "docker",
        "compose.yaml",
        _ROOT,
        "    devices: [/dev/sda]\n    read_only: true\n    ipc",
        f"services.sandbox.devices: {KNOWN}",
    ),
    ("docker", "compose.yaml", _ROOT, "    ipc", "write the image's root"),
    ("docker", "compose.yaml", "ipc: private", "ipc: host", "namespace ipc of the host"),
    (
        "docker",
        "compose.yaml",
        "    cap_drop:\n    - ALL\n",
        "",
        "capability those that the engine gives by default",
    ),
    ("docker", "compose.yaml", '    - "no-new-privileges:true"\n', "", "set-user-id programs"),
    ("docker", "compose.yaml", _SECCOMP, f'{_SECCOMP}    - "seccomp:unconfined"\n', "syscall kexec_load"),
    ("docker", "compose.yaml", _SECCOMP, f'{_SECCOMP}    - "label:disable"\n', KNOWN),
    ("podman", "compose.yaml", "userns_mode: keep-id", "userns_mode: host", KNOWN),
    ("docker", "compose.yaml", "services:\n", "services:\n  other: {image: x}\n", f"services.other: {KNOWN}"),
    (
        "devcontainer",
        "devcontainer.json",
        '"privileged": false',
        '"privileged": true',
        f"privileged: {KNOWN}",
    ),
    (
        "devcontainer",
        "devcontainer.json",
        '"privileged": false',
        '"privileged": false, "initializeCommand": "x"',
        f"initializeCommand: {KNOWN}",
    ),
    ("devcontainer", "devcontainer.json", '"capAdd": []', '"capAdd": ["SYS_ADMIN"]', "capability SYS_ADMIN"),
    ("devcontainer", "devcontainer.json", '"--read-only",', '"--privileged",', KNOWN),
    ("devcontainer", "devcontainer.json", '"no-new-privileges",', "", "set-user-id programs"),
]
_LINUX, _PID = '"linux": {', '      {\n        "type": "pid"\n      },\n'
RUNTIMES = [
    (
        "oci",
        "config.json",
        _LINUX,
        '"hooks": {"prestart": [{"path": "/bin/sh"}]}, "linux": {',
        f"hooks: {KNOWN}",
    ),
    (
        "oci",
        "config.json",
        _LINUX,
        '"annotations": {"run.oci.hooks": "x"}, "linux": {',
        f"annotations: {KNOWN}",
    ),
    ("oci", "config.json", _LINUX, '"linux": {"devices": [{"path": "/dev/sda"}],', f"linux.devices: {KNOWN}"),
    (
        "oci",
        "config.json",
        '"maskedPaths": [',
        '"maskedPaths": [], "unmasked": [',
        f"linux.unmasked: {KNOWN}",
    ),
    ("oci", "config.json", '      "/proc/kcore",\n', "", "read /proc/kcore"),
    ("oci", "config.json", '      "/sys/class/net",\n', "", "read /sys/class/net"),
    ("oci", "config.json", '      "/proc/sys",\n', "", "write /proc/sys"),
    ("oci", "config.json", '"noNewPrivileges": true', '"noNewPrivileges": false', "set-user-id programs"),
    ("oci", "config.json", '"readonly": true', '"readonly": false', "write the image's root"),
    ("oci", "config.json", '"effective": []', '"effective": ["CAP_SYS_ADMIN"]', "capability SYS_ADMIN"),
    (
        "oci",
        "config.json",
        '"type": "pid"',
        '"type": "pid", "path": "/proc/1/ns/pid"',
        f"linux.namespaces[1].path: {KNOWN}",
    ),
    ("oci", "config.json", _PID, "", "namespace pid of the host"),
    (
        "oci",
        "config.json",
        '"resources": {}',
        '"resources": {"devices": [{"allow": true, "access": "rwm"}]}',
        "device 0",
    ),
    ("oci", "config.json", '"nodev"', '"dev"', KNOWN),
    ("gvisor", "config.json", _PID, "", "namespace pid of the host"),
    ("gvisor", "launch.plan", "--oci-seccomp\0", "--rootless\0", "syscall kexec_load"),
    ("gvisor", "launch.plan", "--oci-seccomp\0", "--host-fifo=open\0", KNOWN),
]
_DROP = "            drop:\n            - ALL\n"
PODS = [
    (
        "kubernetes",
        "job.yaml",
        "privileged: false",
        "privileged: true",
        f"containers[0].securityContext.privileged: {KNOWN}",
    ),
    ("kubernetes", "job.yaml", "hostPID: false", "hostPID: true", "namespace pid of the host"),
    ("kubernetes", "job.yaml", "hostIPC: false", "hostIPC: true", "namespace ipc of the host"),
    ("kubernetes", "job.yaml", "hostNetwork: false", "hostNetwork: true", "connect 192.0.2.1:443"),
    ("kubernetes", "job.yaml", "hostUsers: false", "hostUsers: true", "namespace user of the host"),
    (
        "kubernetes",
        "job.yaml",
        "allowPrivilegeEscalation: false",
        "allowPrivilegeEscalation: true",
        "set-user-id programs",
    ),
    (
        "kubernetes",
        "job.yaml",
        "readOnlyRootFilesystem: true",
        "readOnlyRootFilesystem: false",
        "write the image's root",
    ),
    (
        "kubernetes",
        "job.yaml",
        _DROP,
        "            drop: []\n",
        "capability those that the engine gives by default",
    ),
    ("kubernetes", "job.yaml", _DROP, f"{_DROP}            add: [SYS_ADMIN]\n", "capability SYS_ADMIN"),
    ("kubernetes", "job.yaml", "emptyDir: {}", "hostPath: {path: /}", f"volumes[2].hostPath: {KNOWN}"),
    (
        "kubernetes",
        "job.yaml",
        "      containers:\n",
        "      initContainers: [{name: x}]\n      containers:\n",
        f"initContainers: {KNOWN}",
    ),
    ("kubernetes", "job.yaml", "runAsNonRoot: true", "runAsNonRoot: false", f"runAsNonRoot: {KNOWN}"),
    (
        "kubernetes-install",
        "sandboxtemplate.yaml",
        "hostPID: false",
        "hostPID: true",
        "namespace pid of the host",
    ),
]
_REFUSES = '"defaultAction": "SCMP_ACT_ERRNO"'
FILTERS = [
    ("docker", "seccomp.json", _REFUSES, '"defaultAction": "SCMP_ACT_ALLOW"', "a call that no rule names"),
    ("oci", "config.json", _REFUSES, '"defaultAction": "SCMP_ACT_ALLOW"', "a call that no rule names"),
    ("oci", "config.json", _REFUSES, '"defaultAction": "SCMP_ACT_LOG"', "a call that no rule names"),
    (
        "gvisor",
        "config.json",
        '"defaultAction": "SCMP_ACT_TRACE"',
        '"defaultAction": "SCMP_ACT_ALLOW"',
        "a call that no rule names",
    ),
    (
        "kubernetes",
        "seccomp.json",
        _REFUSES,
        '"defaultAction": "SCMP_ACT_ALLOW"',
        "a call that no rule names",
    ),
]
PLANTED = [*BWRAP, *ENGINES, *COMPOSE, *RUNTIMES, *PODS, *FILTERS]


@pytest.mark.parametrize(("method", "artifact", "old", "new", "case"), PLANTED)
def test_less_isolation_is_refused(
    method: str, artifact: str, old: str, new: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = faulty_policy(registry.find(method)[0])
    check_planted(policy, method, artifact, (old, new), case, monkeypatch)


@pytest.mark.parametrize(
    ("artifact", "old", "new"),
    [
        ("launch.plan", "--memory-swap=", "--memory-swap=9"),
        ("launch.plan", "--memory-swap=1073741824b", "--rm"),
        ("compose.yaml", "memswap_limit: ", "memswap_limit: 9"),
        ("config.json", '"swap": ', '"swap": 9'),
    ],
)
def test_a_limit_of_memory_that_leaves_swap_is_refused(
    artifact: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = "oci" if artifact == "config.json" else "docker"
    policy = Policy.from_text(f"method: {method}\nresources: {{memory: 1GiB}}\n").resolve(
        dataclasses.replace(FACTS, uid=0)
    )
    check_planted(policy, method, artifact, (old, new), KNOWN, monkeypatch)


@pytest.mark.parametrize("option", ["nosuid", "nodev"])
@pytest.mark.parametrize("method", ["oci", "gvisor"])
def test_a_mount_with_devices_or_set_user_id_programs_is_refused(
    method: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = (f'"{option}"', '"rw"')
    check_planted(policy_for(method), method, "config.json", change, f"no {option}' is unknown", monkeypatch)


def test_root_s_bundle_without_the_rule_for_devices_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Policy.from_text("method: oci\n").resolve(dataclasses.replace(FACTS, uid=0))
    check_planted(policy, "oci", "config.json", ('"access": "rwm"', '"access": "m"'), KNOWN, monkeypatch)


OUTER = {
    "--privileged": KNOWN,
    "--cap-add=SYS_PTRACE": "capability SYS_PTRACE",
    "--pid=host": KNOWN,
    "--mount=type=bind,src=/opt,dst=/host/opt": "write /opt: denied by read /",
}


@pytest.mark.parametrize("engine", ["docker", "podman"])
@pytest.mark.parametrize(("option", "case"), OUTER.items())
def test_gvisors_container_with_less_isolation_is_refused(
    engine: str, option: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = faulty_policy("gvisor")
    change = ("--rm\0", f"{option}\0")
    check_planted(policy, f"gvisor-{engine}", "launch.plan", change, case, monkeypatch)


def test_gvisors_container_whose_runsc_has_no_filter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = faulty_policy("gvisor")
    change = ("--env=SANDWRIGHT_FLAGS=--oci-seccomp ", "--env=SANDWRIGHT_FLAGS=")
    check_planted(policy, "gvisor-docker", "launch.plan", change, "syscall kexec_load", monkeypatch)


@pytest.mark.parametrize("method", ["bwrap", "user", "oci"])
@pytest.mark.parametrize("path", ["/proc/kcore", "/sys/firmware"])
def test_no_mask_can_be_left_out(method: str, path: str) -> None:
    facts = FAULTY_FACTS.with_entries({each: HostEntry("directory") for each in hidden_paths()})
    policy = policy_for(method, FAULTY, facts)
    sandbox = METHODS[method].read_artifacts(registry.render(policy, method), policy)
    assert isinstance(sandbox, Enclosure)
    kept = tuple(each for each in sandbox.mounts if each[0].target != path)
    assert len(kept) < len(sandbox.mounts)
    found = exposures(
        policy, registry.declaration(method), dataclasses.replace(sandbox, mounts=kept), "amd64"
    )
    assert [each.subject for each in found] == [f"read {path}"]


@pytest.mark.parametrize("method", ["bwrap", "user"])
def test_a_filter_of_bpf_that_lets_unlisted_calls_run_is_refused(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The filter refuses each call that has a name, except `read`."""
    steps = [struct.pack("<HBBI", 0x20, 0, 0, 0)]  # the number of the call
    steps += [struct.pack("<HBBI", 0x15, 2, 0, numbers(Abi.AMD64)["read"])]
    steps += [struct.pack("<HBBI", 0x25, 1, 0, max(numbers(Abi.AMD64).values()))]
    steps += [struct.pack("<HBBI", 0x06, 0, 0, action) for action in (0x00050001, 0x7FFF0000)]
    made = Method.make_artifacts

    def faulty(own: Method, policy: ResolvedPolicy) -> tuple[Artifact, ...]:
        return tuple(
            dataclasses.replace(each, content=b"".join(steps)) if each.name == "seccomp.bpf" else each
            for each in made(own, policy)
        )

    monkeypatch.setattr(Method, "make_artifacts", faulty)
    with pytest.raises(ArtifactsTooWide, match="a call that no rule names") as caught:
        registry.render(policy_for(method), method)
    assert "syscall" not in str(caught.value)


PRIVILEGED = (
    "process: {sandbox_root: true}\nresources: {pids: unlimited, memory: unlimited, cpus: unlimited}\n"
)


@pytest.mark.parametrize("method", ["bwrap", "docker", "podman", "oci", "gvisor"])
def test_a_policy_with_privileges_grants_those_of_root_inside_and_no_other(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy.from_text(f"method: {method}\n{PRIVILEGED}").resolve(FACTS)
    registry.render(policy, method)
    artifact = {"bwrap": "args", "oci": "config.json", "gvisor": "config.json"}.get(method, "launch.plan")
    change = ("CAP_FOWNER", "CAP_SYS_ADMIN")
    check_planted(
        policy,
        method,
        artifact,
        change,
        "capability SYS_ADMIN: denied by process.sandbox_root: true",
        monkeypatch,
    )


def test_a_method_that_declares_namespaces_has_them_read() -> None:
    policy = policy_for("seatbelt")
    unread = METHODS["seatbelt"].read_artifacts(registry.render(policy, "seatbelt"), policy)
    with pytest.raises(UsageError, match="bwrap declares namespaces or masks, and nothing reads them back"):
        list(exposures(policy, registry.declaration("bwrap"), unread, "amd64"))
    assert not list(exposures(policy, registry.declaration("seatbelt"), unread, "amd64"))
