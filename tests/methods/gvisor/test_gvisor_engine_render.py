"""The artifacts of gVisor in a container: rights, filter, paths, and the part that sessions share."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright.api import Policy
from sandwright.cli.commands.table import command_of
from sandwright.cli.parsing import parse
from sandwright.cli.running import request_of
from sandwright.errors import ArtifactsTooWide, RenderError
from sandwright.launcher.plan import parse_plan
from sandwright.methods.contract import Method
from sandwright.methods.gvisor.outer.render import outer_options
from sandwright.methods.registry import backend, proxy_starter, render, variant_name
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.rendered import Rendered
from sandwright.resources import data_path
from sandwright.seccomp import profile
from support.thorough import examples

POLICY = """\
schema: 1
extends: []
method: gvisor
gvisor: {engine: docker}
filesystem: {read: [/srv/data], write: [$PROJECT], deny: [$PROJECT/secrets, $PROJECT/token]}
environment: {pass: [TERM], set: {CI: "1"}}
"""
FACTS = HostFacts(
    os="linux",
    home="/home/u",
    project="/home/u/p",
    uid=0,
    gid=0,
    user="root",
    entries={
        **dict.fromkeys(("/", "/home", "/home/u", "/home/u/p", "/home/u/p/secrets"), HostEntry("directory")),
        **dict.fromkeys(("/srv", "/srv/data"), HostEntry("directory")),
        "/home/u/p/token": HostEntry("file"),
    },
)  # fmt: skip


def _resolved(text: str = "", **facts: Any) -> ResolvedPolicy:
    return Policy.from_text(POLICY + text).resolve(replace(FACTS, **facts))


def _rendered(text: str = "", **facts: Any) -> Rendered:
    return render(_resolved(text, **facts), "gvisor")


@pytest.mark.parametrize(
    ("source", "target"), [("/host/opt", "/x"), ("/host/home/u/p/secrets", "/y"), ("/host", "/z")]
)
def test_a_mount_that_the_policy_does_not_grant_is_refused(
    source: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate reads paths of the outer container as the host's: the host is below `/host`."""
    made = Method.make_artifacts

    def widened(own: Method, policy: ResolvedPolicy) -> tuple[Artifact, ...]:
        return tuple(map(with_mount, made(own, policy)))

    def with_mount(artifact: Artifact) -> Artifact:
        if artifact.name != "config.json":
            return artifact
        config = json.loads(artifact.content)
        mount = {
            "destination": target,
            "type": "bind",
            "source": source,
            "options": ["rbind", "rprivate", "ro", "nosuid", "nodev"],
        }
        return replace(
            artifact, content=json.dumps({**config, "mounts": [*config["mounts"], mount]}).encode()
        )

    _rendered()
    monkeypatch.setattr(Method, "make_artifacts", widened)
    with pytest.raises(ArtifactsTooWide, match=f"read {target}: denied by "):
        _rendered()


def _words(rendered: Rendered) -> list[str]:
    plan = parse_plan(rendered.artifact("launch.plan").content)
    hidden = (f"--mount=type=bind,readonly,{fields}" for fields in plan.engine.hidden_files)
    return [*plan.engine.options, *hidden]


def _config(rendered: Rendered) -> Any:
    return json.loads(rendered.artifact("config.json").content)


@pytest.mark.parametrize(
    ("uid", "added", "unmasked"),
    [
        (0, ["CAP_SETGID", "CAP_SETUID", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT"], False),
        (1000, [], True),
    ],
    ids=["root", "user"],
)
def test_the_container_has_what_was_measured(uid: int, added: list[str], unmasked: bool) -> None:
    for engine, clean in (
        ("docker", "--security-opt=systempaths=unconfined"),
        ("podman", "--security-opt=unmask=ALL"),
    ):
        rendered = render(replace(_resolved(uid=uid, gid=uid), gvisor_engine=engine), "gvisor")  # type: ignore[arg-type]
        words = _words(rendered)
        assert [word.removeprefix("--cap-add=") for word in words if word.startswith("--cap-add=")] == added
        for word in (
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            "--read-only",
            "--network=none",
            f"--user={uid}:{uid}",
        ):
            assert word in words
        assert (clean in words) == unmasked
        assert any(word.startswith("--security-opt=mask=") for word in words) == (
            engine == "podman" and not unmasked
        )
        assert not any("privileged" in word.replace("no-new-privileges", "") for word in words)
        flags = next(word for word in words if word.startswith("--env=SANDWRIGHT_FLAGS="))
        assert ("--rootless" in flags.split()) == (uid != 0)


def test_the_filter_is_ours_and_lets_six_calls_more_through() -> None:
    rules = json.loads(_rendered().artifact("seccomp.json").content)["syscalls"]
    allowed = {
        name
        for rule in rules
        if rule["action"] == "SCMP_ACT_ALLOW" and not rule.get("args")
        for name in rule["names"]
    }
    more = {"chroot", "clone", "mount", "pivot_root", "ptrace", "umount2"}
    assert more <= allowed
    assert not allowed & {
        "unshare",
        "setns",
        "bpf",
        "keyctl",
        "process_vm_writev",
        "open_tree",
        "io_uring_setup",
    }


def test_the_host_is_below_a_directory_of_its_own() -> None:
    """No path of the host covers a program of the container, and denied paths are already hidden there."""
    words = _words(_rendered())
    mounts = [word for word in words if word.startswith(("--mount=", "--volume=", "--tmpfs="))]
    targets = [word.split("dst=")[1].split(",")[0] for word in mounts if "dst=" in word]
    assert sorted(targets) == [
        "/host/home/u/p",
        "/host/home/u/p/.sandbox",
        "/host/home/u/p/sandbox.yaml",
        "/host/home/u/p/secrets",
        "/host/home/u/p/token",
        "/host/srv/data",
    ]
    assert "--mount=type=bind,src=/srv/data,dst=/host/srv/data,bind-propagation=rprivate,readonly" in mounts
    config = _config(_rendered())
    sources = {each["destination"]: each["source"] for each in config["mounts"] if each["type"] == "bind"}
    assert sources == {
        "/etc/group": "/sandwright/group",
        "/etc/passwd": "/sandwright/passwd",
        "/etc/hosts": "/etc/hosts",
        "/etc/resolv.conf": "/etc/resolv.conf",
        "/home/u/p": "/host/home/u/p",
        "/home/u/p/token": "nothing",
        "/srv/data": "/host/srv/data",
    }


def test_limits_are_the_container_s() -> None:
    rendered = _rendered("resources: {memory: 1GiB, cpus: 2, pids: 200, files: 64}\n")
    words = _words(rendered)
    for word in (
        "--memory=1073741824b",
        "--memory-swap=1073741824b",
        "--cpu-quota=200000",
        "--pids-limit=200",
    ):
        assert word in words
    assert not any("nofile" in word for word in words), "runsc itself needs files"
    config = _config(rendered)
    assert config["linux"]["resources"] == {}
    assert "cgroupsPath" not in config["linux"]
    assert {"type": "RLIMIT_NOFILE", "soft": 64, "hard": 64} in config["process"]["rlimits"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "resources: {pids: 127}\n",
            "resources.pids: 127 is too few for gVisor's container: its own threads are counted too, and it "
            "dies or hangs without them; give 128 or more",
        ),
        (
            "credentials: {shims: {gh: {allow: []}}}\n",
            "credentials.shims: gVisor's outer container cannot have shims",
        ),
    ],
    ids=["pids", "shims"],
)
def test_what_is_refused(text: str, said: str) -> None:
    with pytest.raises(RenderError) as raised:
        _rendered(text)
    assert str(raised.value).endswith(said)
    assert _rendered("resources: {pids: 128}\n")


def test_a_proxy_is_reached_by_name_and_the_network_is_the_container_s() -> None:
    rendered = _rendered("network: {mode: proxy, allow: [a.example]}\n")
    assert not any(word.startswith("--network") for word in _words(rendered)), "the launcher makes one"
    assert "--env=SANDWRIGHT_FLAGS=--oci-seccomp --network=host --directfs=false" in _words(rendered)
    assert "HTTPS_PROXY=http://proxy:3128" in _config(rendered)["process"]["env"]
    assert rendered.artifact("proxy/squid.conf")
    with pytest.raises(RenderError, match="a persistent container has none"):
        outer_options(_resolved("network: {mode: proxy, allow: [a.example]}\n"))


def test_one_component_starts_the_proxy() -> None:
    """In an outer container gVisor reaches the proxy's container, so the session starts none on the host."""
    inside, beside = (
        Policy.from_text(f"{text}network: {{mode: proxy, allow: [a.example]}}\n").resolve(FACTS)
        for text in (POLICY, "schema: 1\nmethod: gvisor\n")
    )
    assert proxy_starter("gvisor", inside) == "launcher"
    assert proxy_starter("gvisor-podman", beside) == "launcher"
    assert proxy_starter("gvisor", beside) == proxy_starter("bwrap", inside) == "session"
    assert proxy_starter("docker", beside) == "launcher"


def test_a_container_that_stays_has_the_same() -> None:
    options = outer_options(_resolved())
    words = [
        word
        for word in _words(_rendered())
        if word.startswith("--") and word not in ("--rm", "--interactive")
    ]
    assert [word for word in options.words if word not in words] == []
    assert options.files["seccomp.json"] == _rendered().artifact("seccomp.json").content
    assert options.hidden == ("/host/home/u/p/token",)


def test_without_it_nothing_changes() -> None:
    here = render(replace(_resolved(), gvisor_engine="none"), "gvisor")
    names = [
        "config.json",
        "passwd",
        "group",
        "hosts",
        "resolv.conf",
        "mounts",
        "launch",
        "launch-init",
        "launch.plan",
    ]
    assert [each.name for each in here.artifacts] == names


def test_what_is_shipped_is_what_is_let_through() -> None:
    """The listed calls with their reasons are those that the profile grants beyond `default`."""
    shipped = json.loads(data_path("oci", "outer.json").read_text())
    calls = [each["syscall"] for each in shipped["calls"]]
    assert calls == ["chroot", "clone", "mount", "pivot_root", "ptrace", "umount2"]
    before, after = profile("default").rules(), profile("runsc-in-container").rules()
    changed = [
        name
        for name in after
        if [(rule.action, rule.when) for rule in after[name]]
        != [(rule.action, rule.when) for rule in before[name]]
    ]
    modes = {"chmod", "creat", "fchmod", "fchmodat", "open", "openat", "openat2"}
    assert sorted({*changed} - modes) == calls, "and set-user-id files, of which the filter inside decides"
    for mode in ("rootful", "rootless"):
        assert shipped["seccomp"][mode] == "runsc-in-container"


def test_the_option_of_a_run() -> None:
    command = command_of("run")
    assert command is not None
    parsed = parse(command, ["--method=gvisor", "--gvisor-engine", "docker", "--", "true"])
    asked = request_of(parsed.words, **parsed.values)  # type: ignore[arg-type]  # by the table
    assert (asked.method, asked.settings, asked.argv) == ("gvisor", ["gvisor.engine=docker"], ["true"])


@pytest.mark.parametrize(
    ("method", "engine", "row"),
    [
        ("gvisor", "none", "gvisor"),
        ("gvisor", "docker", "gvisor-docker"),
        ("gvisor", "podman", "gvisor-podman"),
        ("docker", "podman", "docker"),
    ],
)
def test_rows(method: str, engine: str, row: str) -> None:
    policy = replace(_resolved(), gvisor_engine=engine)  # type: ignore[arg-type]
    assert variant_name(method, policy) == row
    assert backend(row).name == row


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration that all sessions of a policy share."""
    path = tmp_path_factory.mktemp("shared") / "config.json"
    path.write_bytes(_rendered().artifact("config.json").content)
    return path


VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@settings(max_examples=examples(25))
@given(
    argv=st.lists(VALUES, min_size=1, max_size=4),
    values=st.dictionaries(st.sampled_from(["A", "B_2", "LC_ALL"]), VALUES),
)
@pytest.mark.needs("busybox")
def test_any_words_and_values_reach_the_configuration(
    config: Path, argv: list[str], values: dict[str, str]
) -> None:
    script = data_path("images", "gvisor", "files", "bundle.awk")
    words = [
        "busybox",
        "awk",
        "-f",
        str(script),
        str(config),
        "/sandwright/rootfs",
        "2",
        "usr",
        "et c",
        *argv,
    ]
    environment = {
        **values,
        "SANDWRIGHT_PASSED": " ".join(values),
        "SANDWRIGHT_TERMINAL": "false",
        "SANDWRIGHT_JOIN": "yes",
    }
    done = subprocess.run(words, env=environment, capture_output=True, check=True, timeout=30)
    made, before = json.loads(done.stdout), json.loads(config.read_bytes())
    assert made["process"]["args"] == argv
    assert made["process"]["env"] == [
        *(f"{name}={value}" for name, value in values.items()),
        *before["process"]["env"],
    ]
    assert [each["destination"] for each in made["mounts"][:2]] == ["/usr", "/et c"]
    assert made["mounts"][2:] == before["mounts"]
    assert {"type": "network"} not in made["linux"]["namespaces"]
    assert len(made["linux"]["namespaces"]) == len(before["linux"]["namespaces"]) - 1
    assert made["linux"]["seccomp"] == before["linux"]["seccomp"]
