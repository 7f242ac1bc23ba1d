"""Rendered artifacts that allow more than the policy are refused, whichever method rendered them.

Tests of evaluate/boundary.py: the paths, hosts and calls that the gate checks.
Tests of evaluate/gate.py.
Tests of methods/registry.py: nothing is rendered without the gate.
Tests of methods/shared/launched.py: a trial is rendered through the gate, too.
Tests of methods/shared/engine/compose_explain.py: the Compose file, read back.
Tests of render/imagemasks.py: a denied path of an image is hidden.
"""

# A row of a table is a line, however long.
# ruff: noqa: E501, PLR0917

from __future__ import annotations

import ast
import dataclasses
import re
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import sandwright.evaluate.gate
from sandwright import HostFacts, Policy, ResolvedPolicy
from sandwright.errors import ArtifactsTooWide, RenderError
from sandwright.evaluate.explain.enclosure import Enclosure
from sandwright.evaluate.gate import check_artifacts
from sandwright.methods import METHODS, compare, registry
from sandwright.methods.contract import Method
from sandwright.policy.facts import HostEntry
from sandwright.policy.paths import ancestors
from sandwright.questions import EntryKind
from sandwright.render.artifact import Artifact
from sandwright.render.mounts import MountPlan, Root, mount_plan
from support.gateplants import (
    DIRECTORY,
    FACTS,
    FAULTY_FACTS,
    FILE,
    HOME,
    PROJECT,
    check_planted,
    faulty_policy,
    policy_for,
    rendered_names,
)
from support.thorough import covering

MOUNTING = ("bwrap", "user", "vm", "docker", "podman", "oci", "gvisor", "kubernetes")
HOLDING = (*MOUNTING, "seatbelt")


def _writable(policy: ResolvedPolicy, method: str, path: str) -> bool:
    row = compare.explain(policy, "write", path, methods=[method]).row(method)
    assert row.status in ("agrees", "stricter"), row
    return row.decision == "allow"


@pytest.mark.parametrize(
    ("method", "kind", "listed"),
    covering(
        HOLDING,
        ["file", "fifo", "socket"],
        ["deny: [$PROJECT/a/b]", "readonly: [$PROJECT/a/b]", ""],
    ),
)
def test_a_file_where_a_restricted_name_needs_a_directory_stays(
    method: str, kind: EntryKind, listed: str
) -> None:
    name = "a" if listed else ".claude"
    inner = f"{PROJECT}/a/b" if listed else f"{PROJECT}/.claude/settings.json"
    facts = FACTS.with_entries({f"{PROJECT}/{name}": HostEntry(kind)})
    policy = policy_for(method, f"{{{listed}}}", facts)
    if kind == "socket" and method in ("gvisor", "kubernetes"):
        # these mount nothing over a socket
        with pytest.raises(ArtifactsTooWide, match=re.escape(f"write {PROJECT}/{name}/")):
            registry.render(policy, method)
        return
    registry.render(policy, method)
    assert not _writable(policy, method, inner)


@pytest.mark.parametrize(("method", "link"), covering(HOLDING, [".zshrc", ".config/fish/config.fish"]))
def test_the_name_to_which_a_dangling_link_leads_is_held(method: str, link: str) -> None:
    above = {f"{HOME}/.config": DIRECTORY, f"{HOME}/.config/fish": DIRECTORY}
    facts = FACTS.with_entries({**above, f"{HOME}/{link}": HostEntry("symlink", f"{PROJECT}/target")})
    policy = policy_for(method, facts=facts)
    registry.render(policy, method)
    assert not _writable(policy, method, f"{PROJECT}/target")
    assert _writable(policy, method, f"{PROJECT}/other")


@pytest.mark.parametrize("method", HOLDING)
def test_names_are_held_in_each_writable_directory_of_the_project(method: str) -> None:
    policy = policy_for(method, "{write: [$PROJECT/out]}")
    registry.render(policy, method)
    assert not _writable(policy, method, f"{PROJECT}/out/.claude/settings.json")
    assert _writable(policy, method, f"{PROJECT}/out/x")


@pytest.mark.parametrize(
    ("method", "home"),
    covering(HOLDING, ["/dev/shm/h", "/tmp/h", "/run/h", "/var/tmp/h", "/root", "/srv/a b/h", "/nix/h"]),
)
def test_a_home_anywhere_is_no_disagreement(method: str, home: str) -> None:
    """Some homes lie below directories of the sandbox's own: no file of the host appears there."""
    project = "/srv/p" if home in ("/dev/shm/h", "/run/h") else f"{home}/p"
    there = (home, project, f"{home}/.ssh", f"{project}/.git")
    entries = dict.fromkeys((*there, *(above for path in there for above in ancestors(path))), DIRECTORY)
    facts = HostFacts(os="linux", home=home, project=project, entries=entries)
    registry.render(policy_for(method, facts=facts), method)


PLANNERS = {
    "bwrap": "sandwright.methods.bwrap.render",
    "user": "sandwright.methods.user.render",
    "vm": "sandwright.methods.vm.render",
    "docker": "sandwright.methods.shared.engine.render",
    "podman": "sandwright.methods.shared.engine.render",
    "oci": "sandwright.methods.shared.runtime_spec.render",
    "gvisor": "sandwright.methods.shared.runtime_spec.render",
    "kubernetes": "sandwright_kubernetes.volumes",
}


def _without(path: str) -> Callable[..., MountPlan]:
    def plan(policy: ResolvedPolicy, *, root: Root, **more: bool) -> MountPlan:
        found = mount_plan(policy, root=root, **more)
        mounts = tuple(each for each in found.mounts if each.target != path)
        placeholders = tuple(each for each in found.placeholders if each.path != path)
        assert (mounts, placeholders) != (found.mounts, found.placeholders)
        return dataclasses.replace(found, mounts=mounts, placeholders=placeholders)

    return plan


def _widened(path: str) -> Callable[..., MountPlan]:
    def plan(policy: ResolvedPolicy, *, root: Root, **more: bool) -> MountPlan:
        found = mount_plan(policy, root=root, **more)
        mounts = tuple(
            dataclasses.replace(each, writable=True) if each.target == path else each for each in found.mounts
        )
        assert mounts != found.mounts
        return dataclasses.replace(found, mounts=mounts)

    return plan


@pytest.mark.parametrize("method", MOUNTING)
@pytest.mark.parametrize(
    ("fault", "case"),
    [
        pytest.param(_without(f"{PROJECT}/secret"), f"read {PROJECT}/secret", id="a mask is missing"),
        pytest.param(_without(f"{PROJECT}/kept"), f"write {PROJECT}/kept", id="a bind is missing"),
        pytest.param(_widened(f"{PROJECT}/kept"), f"write {PROJECT}/kept", id="a bind is writable"),
        pytest.param(_without(f"{PROJECT}/.vscode"), f"write {PROJECT}/.vscode", id="no placeholder"),
    ],
)
def test_a_renderer_that_loses_a_restriction_is_refused(
    method: str, fault: Callable[..., MountPlan], case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = faulty_policy(method)
    assert rendered_names(policy, method)
    monkeypatch.setattr(f"{PLANNERS[method]}.mount_plan", fault)
    with pytest.raises(ArtifactsTooWide, match=re.escape(case)) as caught:
        registry.render(policy, method)
    assert "sandwright explain" in str(caught.value)
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("method", MOUNTING)
def test_no_restriction_can_be_left_out_of_the_artifacts(method: str) -> None:
    policy = faulty_policy(method)
    rendered = registry.render(policy, method)
    sandbox, declared = METHODS[method].read_artifacts(rendered, policy), registry.declaration(method)
    assert isinstance(sandbox, Enclosure)
    left_out = [
        index
        for index, (mount, _) in enumerate(sandbox.mounts)
        if not mount.writable and mount.target.startswith(f"{PROJECT}/")
        if not mount.target.endswith("/.gitignore")
    ]
    assert len(left_out) > 5
    for index in left_out:
        fewer = (*sandbox.mounts[:index], *sandbox.mounts[index + 1 :])
        with pytest.raises(ArtifactsTooWide):
            check_artifacts(policy, declared, rendered, (dataclasses.replace(sandbox, mounts=fewer),))


@pytest.mark.parametrize(
    ("method", "artifact", "old", "new", "case"),
    [
        ("seatbelt", "profile.sb", '(subpath "/home/u/p/secret")', '(subpath "/home/u/p/other")', f"read {PROJECT}/secret"),
        ("landlock", "rules", "hide\0/home/u/.ssh\0", "read\0/home/u/.ssh\0", "read /home/u/.ssh"),
        ("landlock", "rules", "hide\0/home/u/.ssh\0", "", "read /home/u/.ssh"),
        ("bwrap", "args", "--unshare-net\0", "", "connect 192.0.2.1:443"),
        ("bwrap", "args", "--ro-bind\0/\0/\0", "--bind\0/\0/\0", "write /"),
        ("bwrap", "args", "--tmpfs\0/tmp\0", "--tmpfs\0/tmp\0--bind\0/opt\0/opt\0", "write /opt: denied by read /"),
        ("bwrap", "args", "--tmpfs\0/tmp\0", "--tmpfs\0/tmp\0--ro-bind\0/home/u/.ssh\0/opt/x\0", "read /opt/x: denied by deny ~/.ssh"),
        ("bwrap", "args", "--tmpfs\0/tmp\0", "--tmpfs\0/tmp\0--ro-bind\0/home\0/opt/x\0", "read /opt/x/u/.1password: denied by deny ~/.1password"),
        ("bwrap", "args", "--tmpfs\0/tmp\0", "--bind\0/tmp\0/tmp\0", "read /tmp: denied by the sandbox's own $TMP"),
        ("bwrap", "args", "--dev\0/dev\0", "--dev-bind\0/dev\0/dev\0", "write /dev: denied by the sandbox's own /dev"),
        ("bwrap", "args", "--seccomp\0005\0", "", "syscall kexec_load"),
        ("bwrap", "launch.plan", "NO_COLOR\0", "AWS_PROFILE\0", "env AWS_PROFILE: denied by pass"),
        ("docker", "launch.plan", "NO_COLOR\0", "AWS_*\0", "env AWS_GATE_VARIABLE: denied by pass"),
        ("docker", "launch.plan", "--read-only\0", "--mount=type=bind,src=/opt,dst=/x\0", "write /x: denied by read /"),
        ("oci", "config.json", '"mounts": [', '"mounts": [{"destination": "/x", "source": "/opt", "type": "bind", "options": ["rbind", "rprivate", "nosuid", "nodev"]},', "write /x: denied by read /"),
    ],
)  # fmt: skip
def test_changed_artifacts_are_refused(
    method: str, artifact: str, old: str, new: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_planted(_accepting(method), method, artifact, (old, new), case, monkeypatch)


SECRET = f"{PROJECT}/secret"
READERS = [
    ("docker", "compose.yaml", f'source: "/dev/null", target: "{SECRET}"', f'source: "{SECRET}", target: "{SECRET}"', f"read {SECRET}"),
    ("docker", "compose.yaml", "network_mode: none", "network_mode: host", "connect 192.0.2.1:443"),
    ("docker", "compose.yaml", "seccomp:./seccomp.json", "seccomp:unconfined", "syscall kexec_load"),
    ("docker", "compose.yaml", "    - NO_COLOR\n", "    - PYTHONPATH\n", "env PYTHONPATH"),
    ("podman", "compose.yaml", f'target: "{PROJECT}/.git", read_only: true', f'target: "{PROJECT}/.git", read_only: false', f"write {PROJECT}/.git/config"),
    ("docker", "seccomp.json", '"getpid"', '"kexec_load"', "syscall kexec_load"),
    ("oci", "config.json", '"getpid"', '"keyctl"', "syscall keyctl"),
    ("oci", "config.json", '"getpid"', '"socket"', "syscall socket"),
    ("oci", "config.json", '"getpid"', '"chmod"', "syscall chmod 0x0 0x800"),
    ("oci", "asking.json", '"getpid"', '"mount"', "syscall mount"),
    ("oci", "config.json", '"rprivate",', "", "no rprivate' is unknown"),
    ("oci", "config.json", '"ro",\n        "rro"', '"ro"', "no rro' is unknown"),
    ("kubernetes", "seccomp.json", '"getpid"', '"ioctl"', "syscall ioctl 0x0 0x5412"),
    ("devcontainer", "devcontainer.json", f"src=/dev/null,dst={SECRET}", f"src={SECRET},dst={SECRET}", f"read {SECRET}"),
    ("devcontainer", "devcontainer.json", "--network=none", "--network=host", "connect 192.0.2.1:443"),
    ("devcontainer", "devcontainer.json", "/seccomp.json", "/other.json", "syscall kexec_load"),
    ("devcontainer", "devcontainer.json", f"target={PROJECT}", "target=/etc", "write /etc"),
    ("vm-landlock", "mounts", f"mask-file\0{SECRET}", f"read\0{SECRET}", f"read {SECRET}"),
    ("vm-landlock", "mounts", f"cover-directory\0{PROJECT}/.vscode", f"write\0{PROJECT}/.vscode", f"write {PROJECT}/.vscode"),
    ("kubernetes-install", "sandbox.yaml", f'mountPath: "{SECRET}"', 'mountPath: "/srv/none"', f"read {SECRET}"),
    ("kubernetes-install", "sandboxtemplate.yaml", "egress: []", "egress:\n    - {}", "connect 192.0.2.1:443"),
    ("kubernetes-install", "sandboxtemplate.yaml", "type: Localhost", "type: RuntimeDefault", "syscall kexec_load"),
    ("kubernetes-install", "namespace.yaml", "enforce: restricted", "enforce: baseline", "namespace.yaml: pod-security.kubernetes.io/enforce is not restricted"),
    ("kubernetes-install", "admission-pods-binding.yaml", "  - Deny\n", "  - Audit\n", "validationActions is not Deny"),
    ("kubernetes-install", "admission-pods-policy.yaml", "failurePolicy: Fail", "failurePolicy: Ignore", "failurePolicy is not Fail"),
    ("kubernetes-install", "kustomization.yaml", "- quota.yaml\n", "", "kustomization.yaml does not list quota.yaml"),
]  # fmt: skip
"""A method or variant, one of its artifacts, text in it, its replacement, and the refused access."""


@pytest.mark.parametrize(("method", "artifact", "old", "new", "case"), READERS)
def test_what_other_tools_start_is_refused_when_it_is_too_wide(
    method: str, artifact: str, old: str, new: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = faulty_policy(registry.find(method)[0])
    check_planted(policy, method, artifact, (old, new), case, monkeypatch)


ACCOUNT = """
method: alcless
filesystem: {deny: [$PROJECT/secret], readonly: [$PROJECT/kept]}
network: {mode: host}
accept_gaps:
"""
LACKING = (
    "filesystem.read", "filesystem.deny", "filesystem.links", "filesystem.tmp-private", "network.no-sockets",
    "network.other-sockets", "process.unprivileged", "credentials.cloud", "network.no-own-sockets",
    "resources.memory", "resources.cpus",
)  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "case"),
    [
        ("/kept", "/other", f"write {PROJECT}/kept"),
        ("/.git/config", "/.git/other", f"write {PROJECT}/.git/config"),
    ],
)
def test_what_comes_back_from_an_account_is_refused_when_it_is_too_wide(
    old: str, new: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted = "".join(f"  - {{feature: {each}, method: alcless, reason: test}}\n" for each in LACKING)
    policy = Policy.from_text(f"{ACCOUNT}{accepted}").resolve(FAULTY_FACTS)
    check_planted(policy, "alcless", "variables.sh", (old, new), case, monkeypatch)


@pytest.mark.parametrize(
    ("method", "artifact"),
    [
        ("docker", "proxy/squid.conf"),
        ("kubernetes", "proxy-configmap.yaml"),
        ("kubernetes-install", "configmap-proxy.yaml"),
    ],
)
def test_a_proxy_that_lets_other_hosts_through_is_refused(
    method: str, artifact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = "network: {mode: proxy, allow: [listed.example.org]}"
    text = f"method: {registry.find(method)[0]}\n{network}\nresources: {{pids: unlimited}}\n"
    change = ("listed.example.org", "host.invalid")
    case = "connect host.invalid:443"
    check_planted(Policy.from_text(text).resolve(FACTS), method, artifact, change, case, monkeypatch)


def test_a_proxy_is_asked_about_the_neighbours_of_every_host(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = ", ".join(f"h{number}.example.org" for number in range(80))
    text = f"method: docker\nnetwork: {{mode: proxy, allow: [{hosts}]}}\nresources: {{pids: unlimited}}\n"
    change = ("h79.example.org", "h79.example.org.invalid")
    case = "connect h79.example.org.invalid:443"
    check_planted(
        Policy.from_text(text).resolve(FACTS), "docker", "proxy/squid.conf", change, case, monkeypatch
    )


@pytest.mark.parametrize("method", ["bwrap", "docker", "oci"])
def test_a_directory_that_can_be_moved_with_a_restriction_in_it_is_refused(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = FACTS.with_entries({f"{PROJECT}/a": DIRECTORY, f"{PROJECT}/a/b": FILE})
    policy = policy_for(method, "{readonly: [$PROJECT/a/b]}", facts)
    registry.render(policy, method)
    monkeypatch.setattr(f"{PLANNERS[method]}.mount_plan", _without(f"{PROJECT}/a"))
    with pytest.raises(ArtifactsTooWide, match=re.escape(f"renaming {PROJECT}/a, with {PROJECT}/a/b in it")):
        registry.render(policy, method)


def test_a_filter_that_is_not_the_policy_s_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that refuses all calls says nothing about those that the policy denies."""
    _plant_program(monkeypatch, struct.pack("<HBBI", 0x06, 0, 0, 0x00050001))
    with pytest.raises(ArtifactsTooWide, match="it refuses read"):
        registry.render(policy_for("bwrap"), "bwrap")


def _plant_program(monkeypatch: pytest.MonkeyPatch, program: bytes) -> None:
    """Replace the rendered filter by this BPF program."""
    made = Method.make_artifacts

    def faulty(own: Method, policy: ResolvedPolicy) -> tuple[Artifact, ...]:
        return tuple(
            dataclasses.replace(each, content=program) if each.name == "seccomp.bpf" else each
            for each in made(own, policy)
        )

    monkeypatch.setattr(Method, "make_artifacts", faulty)


@pytest.mark.parametrize(
    ("method", "artifact"), [("docker", "seccomp.json"), ("oci", "config.json"), ("oci", "asking.json")]
)
@pytest.mark.parametrize(
    "name", ["io_uring_setup", "open_by_handle_at", "unshare", "ptrace", "process_vm_readv", "syslog"]
)
def test_no_call_that_the_policy_refuses_can_be_allowed(
    method: str, artifact: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = ('"getpid"', f'"{name}"')
    check_planted(policy_for(method), method, artifact, change, f"syscall {name}", monkeypatch)


def test_answers_that_let_reported_calls_run_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """`asking.json` asks the launcher, which answers by `seccomp.bpf`."""
    allows_all = struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)
    _plant_program(monkeypatch, allows_all)
    with pytest.raises(ArtifactsTooWide, match="syscall kexec_load"):
        registry.render(policy_for("oci"), "oci")


def _accepting(method: str) -> ResolvedPolicy:
    """A policy that accepts landlock's gaps, and denies the same paths."""
    if method != "landlock":
        return policy_for(method, "{deny: [$PROJECT/secret]}", FAULTY_FACTS)
    features = ("filesystem.attributes", "filesystem.protect", "process.kernel", "filesystem.absent")
    listed = "".join(f"  - {{feature: {each}, method: landlock, reason: test}}\n" for each in features)
    text = f"method: landlock\nresources: {{pids: unlimited}}\naccept_gaps:\n{listed}"
    return Policy.from_text(text).resolve(FACTS)


@pytest.mark.parametrize(
    ("function", "callers"),
    [
        ("render_with", {"methods/registry.py"}),
        ("render_for_trial", {"methods/registry.py", "methods/shared/launched.py", "methods/vm/backend.py"}),
    ],
)
def test_no_caller_renders_past_the_check(function: str, callers: set[str]) -> None:
    package = Path(sandwright.evaluate.gate.__file__).parents[1]
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == function
    }
    assert found == callers, "render with registry.render, which checks artifacts"


IMAGES = ("docker", "podman", "oci", "gvisor", "kubernetes")
IMAGE_FACTS = FACTS.with_entries({
    **dict.fromkeys(("/usr/bin", "/tmp", "/opt"), DIRECTORY),
    **dict.fromkeys(("/usr/bin/curl", "/etc/passwd"), FILE),
    "/bin": HostEntry("symlink", "usr/bin"),
})  # fmt: skip


@pytest.mark.parametrize(
    ("method", "denied", "path"),
    covering(
        IMAGES,
        [
            pytest.param("/usr/bin/curl", "/usr/bin/curl"),
            pytest.param("/bin/curl", "/usr/bin/curl"),
            pytest.param("/tmp", "/tmp/x"),
            pytest.param("/usr/bin/not-here", "/usr/bin/not-here"),
            pytest.param("/opt", "/opt/tool"),
        ],
    ),
)
def test_a_denied_path_of_an_image_is_hidden(method: str, denied: str, path: str) -> None:
    policy = policy_for(method, f"{{deny: [{denied}]}}", IMAGE_FACTS)
    registry.render(policy, method)
    for question in ("read", "write"):
        row = compare.explain(policy, question, path, methods=[method]).row(method)
        assert (row.decision, row.status) == ("deny", "agrees"), question


@pytest.mark.parametrize("method", IMAGES)
@pytest.mark.parametrize("denied", ["/etc/passwd", "/etc", "/etc/hosts"])
def test_a_denied_path_that_a_method_mounts_itself_is_refused(method: str, denied: str) -> None:
    policy = policy_for(method, f"{{deny: [{denied}]}}", IMAGE_FACTS)
    if method in ("podman", "oci") or (method == "kubernetes" and denied == "/etc/passwd"):
        registry.render(policy, method)
        return
    with pytest.raises(RenderError, match=f"{method} cannot deny {denied}: it mounts its own /etc/"):
        registry.render(policy, method)


@pytest.mark.parametrize("method", IMAGES)
def test_an_image_that_shows_a_denied_path_is_refused(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = policy_for(method, "{deny: [/usr/bin/curl]}", IMAGE_FACTS)
    monkeypatch.setattr(f"{PLANNERS[method]}.mount_plan", _without("/usr/bin/curl"))
    with pytest.raises(
        ArtifactsTooWide, match=r"read /usr/bin/curl: .* the image's own files are visible there"
    ):
        registry.render(policy, method)


@pytest.mark.parametrize("method", MOUNTING)
@pytest.mark.parametrize("listed", ["deny: [$PROJECT/.env]", "deny: [$PROJECT/a/b]"])
def test_a_denied_name_that_is_not_there_is_held(method: str, listed: str) -> None:
    """Under runc an empty directory of the bundle covers the placeholder: no file of the host is there."""
    policy = policy_for(method, f"{{{listed}}}")
    registry.render(policy, method)
    assert not _writable(policy, method, f"{PROJECT}/{'.env' if '.env' in listed else 'a/b'}")
