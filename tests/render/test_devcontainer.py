"""Development containers: golden, no value adds an option, and Docker denies the same as the policy.

Tests of methods/docker/devcontainer.py.
Tests of methods/docker/devcontainer_explain.py.
"""

from __future__ import annotations

import csv
import io
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.api import Policy
from sandwright.errors import RenderError
from sandwright.methods import METHODS, registry
from sandwright.methods.docker.devcontainer import DECLARATION
from sandwright.methods.registry import artifacts as artifacts_of
from sandwright.methods.registry import render
from sandwright.policy.collect import collect_facts
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.artifact import Artifact
from sandwright.render.without_placeholders import plan_without_placeholders
from support.goldens import write_artifacts
from support.pods import busybox_layer
from support.thorough import examples

DECLARATIONS = {name: registry.declaration(name).support for name in METHODS}

PROJECT = "/home/u/p"
DIRECTORIES = ("/", "/home", "/home/u", PROJECT, "/srv", f"{PROJECT}/closed", f"{PROJECT}/.git")
FILES = (f"{PROJECT}/LICENSE", f"{PROJECT}/secret.key", f"{PROJECT}/.git/config")
OWN = "${localWorkspaceFolder}/.sandbox/devcontainer"
Json = dict[str, Any]


def _policy(text: str, **facts: Any) -> ResolvedPolicy:
    entries = {
        **dict.fromkeys(DIRECTORIES, HostEntry("directory")),
        **dict.fromkeys(FILES, HostEntry("file")),
    }
    base: Json = {"os": "linux", "home": "/home/u", "project": PROJECT, "entries": entries, "user": "ada"}
    return Policy.from_text(text).resolve(HostFacts(**{**base, **facts}))


def _rendered(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    return artifacts_of(policy, "devcontainer")


def _config(text: str, **facts: Any) -> Json:
    artifacts = {each.name: each for each in _rendered(_policy(f"method: docker\n{text}", **facts))}
    document: Json = json.loads(artifacts["devcontainer.json"].content)
    return document


def test_what_it_is_made_of() -> None:
    config = _config("extends: []\nfilesystem: {write: [$PROJECT]}\n")
    assert config["securityOpt"] == ["no-new-privileges", f"seccomp={OWN}/seccomp.json"]
    assert (config["capAdd"], config["privileged"], config["forwardPorts"]) == ([], False, [])
    assert config["otherPortsAttributes"] == {"onAutoForward": "ignore"}
    assert (config["containerUser"], config["remoteUser"]) == ("1000:1000", "1000:1000")
    assert config["updateRemoteUserUID"] is False
    assert {"--read-only", "--cap-drop=ALL", "--network=none", "--pull=never"} <= set(config["runArgs"])
    assert not {"features", "initializeCommand", "postCreateCommand", "appPort"} & set(config)
    assert config["workspaceMount"] == "type=bind,source=${localWorkspaceFolder},target=/home/u/p"
    assert config["workspaceFolder"] == PROJECT
    assert config["image"] == "sandwright/debian:latest"


def test_files_that_lie_over_the_images() -> None:
    policy = _policy("method: docker\nextends: []\nfilesystem: {write: [$PROJECT]}\n")
    names = [each.name for each in _rendered(policy)]
    assert names == ["devcontainer.json", "seccomp.json", "passwd", "group", "hosts", "resolv.conf"]
    arguments = _config("extends: []\nfilesystem: {write: [$PROJECT]}\n")["runArgs"]
    for name in names[2:]:
        assert f"--mount=type=bind,src={OWN}/{name},dst=/etc/{name},readonly" in arguments
    off = _config("extends: []\nuser: {mapping: off}\n")
    assert not {"containerUser", "remoteUser"} & set(off)
    assert not [each for each in off["runArgs"] if "passwd" in each]


def test_limits() -> None:
    arguments = _config("extends: []\nresources: {memory: 64MiB, cpus: 1.5, pids: 9, files: 8}\n")["runArgs"]
    limits = ("memory", "cpu", "pids", "ulimit")
    assert [each for each in arguments if each.startswith(tuple(f"--{name}" for name in limits))] == [
        "--memory=67108864b",
        "--memory-swap=67108864b",
        "--cpu-period=100000",
        "--cpu-quota=150000",
        "--pids-limit=9",
        "--ulimit=core=0:0",
        "--ulimit=nofile=8:8",
    ]


def test_what_is_mounted() -> None:
    text = (
        "filesystem:\n  read: [/srv]\n  write: [$PROJECT]\n  readonly: [$PROJECT/LICENSE]\n"
        "  deny: [$PROJECT/closed, $PROJECT/secret.key]\n"
    )
    config = _config(text, git_directories=(f"{PROJECT}/.git",))
    mounts = [
        each for each in config["runArgs"] if each.startswith(("--mount", "--tmpfs")) and OWN not in each
    ]
    bind = "--mount=type=bind,src={0},dst={0},readonly"
    assert mounts[:-2] == [
        bind.format("/srv"),
        bind.format(f"{PROJECT}/.git"),
        bind.format(f"{PROJECT}/LICENSE"),
        f"--mount=type=bind,src=/dev/null,dst={PROJECT}/secret.key,readonly",
        f"--mount=type=tmpfs,dst={PROJECT}/closed,ro,tmpfs-mode=0555",
    ]
    assert [each.split(":")[0] for each in mounts[-2:]] == ["--tmpfs=/tmp", "--tmpfs=/home/u"]


def test_what_is_denied_in_a_closed_repository_stays_hidden() -> None:
    text = "filesystem: {write: [$PROJECT], deny: [$PROJECT/.git/config]}\n"
    arguments = _config(text)["runArgs"]
    assert any(f"{PROJECT}/.git/config" in each for each in arguments), arguments
    plan = plan_without_placeholders(_policy(f"method: docker\n{text}"), root="image")
    last = {mount.target: mount for mount in plan.mounts}
    assert (last[f"{PROJECT}/.git"].kind, last[f"{PROJECT}/.git"].writable) == ("bind", False)
    assert last[f"{PROJECT}/.git/config"].kind == "mask"


def test_a_project_that_is_not_all_there() -> None:
    config = _config("extends: []\nfilesystem: {write: [$PROJECT/closed]}\n")
    assert (config["workspaceMount"], config["workspaceFolder"]) == ("", "/")
    config = _config("extends: []\nfilesystem: {read: [$PROJECT]}\n")
    assert config["workspaceMount"].endswith(",target=/home/u/p,readonly")


def test_variables_of_the_host_are_not_passed() -> None:
    config = _config("environment: {set: {A: b}}\n")
    assert config["containerEnv"]["A"] == "b"
    assert config["containerEnv"]["HOME"] == "/home/u"
    assert config["containerEnv"]["HTTPS_PROXY"] == config["containerEnv"]["https_proxy"] == ""
    assert config["remoteEnv"] == {"SSH_AUTH_SOCK": ""}
    assert "localEnv" not in json.dumps(config)


@pytest.mark.parametrize(
    "policy",
    [
        'environment: {set: {A: "$${localEnv:SECRET}"}}',
        'environment: {set: {A: "x $${localWorkspaceFolder} y"}}',
        'environment: {set: {A: "$${\n}"}}',
        'filesystem: {write: [$PROJECT], readonly: ["$PROJECT/$${localEnv:HOME}"]}',
    ],
)
def test_nothing_is_put_into_a_value(policy: str) -> None:
    """The tools replace such text, and have no escape for it."""
    entries = {f"{PROJECT}/${{localEnv:HOME}}": HostEntry("directory")}
    directories = dict.fromkeys(DIRECTORIES, HostEntry("directory"))
    with pytest.raises(RenderError, match=r"devcontainer\.json cannot hold .*\$\{"):
        _config(f"extends: []\n{policy}\n", entries={**directories, **entries})


def test_a_project_of_an_odd_name() -> None:
    """A comma or quote in its name would add a field to a mount."""
    name = '/home/u/a,readonly"b'
    entries = dict.fromkeys(("/", "/home", "/home/u", name), HostEntry("directory"))
    config = _config("filesystem: {write: [$PROJECT]}\n", project=name, entries=entries)
    assert (
        config["workspaceMount"] == 'type=bind,"source=/home/u/a,readonly""b","target=/home/u/a,readonly""b"'
    )
    assert f"seccomp={name}/.sandbox/devcontainer/seccomp.json" in config["securityOpt"]


TEXTS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"], max_codepoint=0xFFFF), max_size=9
)
ODD = st.sampled_from(
    ['"', "\\", ",readonly", "--privileged", '"],"privileged":true', "$(id)", "$HOME", "a b", "\n"]
)
NAMES = (TEXTS | ODD).filter(
    lambda name: name not in ("", ".", "..") and not set(name) & set("/*?:\0") and name == name.rstrip()
    and "\r\n" not in name
)  # fmt: skip


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(NAMES, max_size=3, unique=True), TEXTS | ODD)
def test_no_value_adds_anything(names: list[str], value: str) -> None:
    paths = [f"{PROJECT}/{name}" for name in names]
    entries = dict.fromkeys((*DIRECTORIES, *paths), HostEntry("directory"))
    plain = {"extends": [], "filesystem": {"write": ["$PROJECT"]}}
    files = {"write": ["$PROJECT"], "readonly": [path.replace("$", "$$") for path in paths]}
    full = {**plain, "filesystem": files, "environment": {"set": {"VALUE": value.replace("$", "$$")}}}
    made, bare = (_document({"method": "docker", **data}, entries) for data in (full, plain))
    assert {**made, "runArgs": 0, "containerEnv": 0} == {**bare, "runArgs": 0, "containerEnv": 0}
    assert made["containerEnv"] == {**bare["containerEnv"], "VALUE": value}
    added = [each for each in made["runArgs"] if each not in bare["runArgs"]]
    assert [each for each in made["runArgs"] if each not in added] == bare["runArgs"]
    fields = [
        row for each in added for row in csv.reader(io.StringIO(each.removeprefix("--mount="), newline=""))
    ]
    assert sorted(fields) == sorted(["type=bind", f"src={path}", f"dst={path}", "readonly"] for path in paths)


def _document(data: Json, entries: dict[str, HostEntry]) -> Json:
    policy = Policy.from_text(json.dumps(data)).resolve(
        HostFacts(os="linux", home="/home/u", project=PROJECT, entries=entries)
    )
    document: Json = json.loads(_rendered(policy)[0].content)
    return document


ATTEMPTS = r"""
say() { printf '%s: %s\n' "$1" "$(eval "$2" 2>&1 | tr '\n' ';')"; }
say user 'id -u; id -g; id -un; echo $HOME; pwd'
say status 'grep -E "^(CapEff|CapBnd|NoNewPrivs|Seccomp:)" /proc/self/status'
say namespace 'unshare -U true && echo made'
say root 'touch /made && echo written'
say tmp 'touch /tmp/made && echo written'
say home 'touch ~/made && echo written'
say project 'touch made && echo written'
say license 'echo x >LICENSE && echo written'
say closed 'ls closed; touch closed/x && echo written'
say secret 'cat secret.key'
say repository 'touch .git/x && echo written'
say own 'touch .sandbox/x && echo written'
say value 'echo "$VALUE"'
say names 'cat /etc/resolv.conf; ls /sys/class/net'
say proxy 'echo "[$HTTPS_PROXY]"'
"""
POLICY = """\
schema: 1
method: docker
extends: []
filesystem:
  write: [$PROJECT]
  readonly: [$PROJECT/LICENSE]
  deny: [$PROJECT/closed, $PROJECT/secret.key]
  protect: [.git/config, .git/commondir]
environment: {set: {VALUE: "it's $$HOME \\"x\\""}}
resources: {memory: 64MiB, pids: 64}
"""
NEEDS_DOCKER = pytest.mark.needs("docker", "busybox")
NEEDS_ROOT = pytest.mark.skipif(
    os.getuid() != 0, reason="the project is given to another user, which root can"
)


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    name = f"localhost/sandwright-dev-{uuid.uuid4().hex[:12]}:1"
    process.run("docker", "import", "-", name, stdin=busybox_layer({}))
    yield name
    process.run("docker", "rmi", "--force", name)


@pytest.fixture
def project(tmp_path: Path, image: str) -> Path:
    """A project of a user other than root with the rendered files."""
    project = tmp_path / "home" / "p"
    for name in (".git/config", "closed/inner", "LICENSE", "secret.key", ".sandbox/sandbox"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("content\n")
    policy = Policy.from_text(f"{POLICY}image: {image}\n")
    facts = collect_facts(policy, project=project, environ={"HOME": str(project.parent)})
    facts = replace(facts, uid=1000, gid=1000, user="ada")
    write_artifacts(project / ".sandbox" / "devcontainer", _rendered(policy.resolve(facts)))
    for path in (project, *project.rglob("*")):
        os.chown(path, 1000, 1000)
    return project


def _run(project: Path, script: str) -> dict[str, str]:
    """Start it as the reference implementation does (devcontainers/cli 0.89, measured), and run a script."""
    text = (project / ".sandbox/devcontainer/devcontainer.json").read_text()
    config = json.loads(text.replace("${localWorkspaceFolder}", str(project)))
    arguments = ["--mount", config["workspaceMount"]]
    for name, value in config["containerEnv"].items():
        arguments += ["-e", f"{name}={value}"]
    arguments += ["-u", config["containerUser"], *config["runArgs"], *(["--init"] if config["init"] else [])]
    for option in config["securityOpt"]:
        arguments += ["--security-opt", option]
    name = f"sandwright-{uuid.uuid4().hex}"
    words = ("--rm", "--name", name, "--workdir", config["workspaceFolder"], "--entrypoint", "/bin/sh")
    try:
        result = process.run("docker", "run", *arguments, *words, config["image"], "-c", script, timeout=60)
    finally:
        process.run("docker", "rm", "--force", name, check=False)
    return {line.partition(":")[0]: line.partition(":")[2].strip() for line in result.text.splitlines()}


def _check(said: dict[str, str], project: Path) -> None:
    assert said["user"] == f"1000;1000;ada;{project.parent};{project};"
    assert "CapEff:\t0000000000000000;CapBnd:\t0000000000000000;NoNewPrivs:\t1;Seccomp:\t2;" in said["status"]
    assert said["namespace"] == "unshare: unshare(0x10000000): Operation not permitted;"
    assert said["root"] == "touch: /made: Read-only file system;"
    assert said["tmp"] == said["home"] == said["project"] == "written;"
    assert "Read-only file system" in said["license"]
    assert said["closed"] == "touch: closed/x: Read-only file system;"
    assert "content" not in said["secret"]
    assert said["repository"] == "touch: .git/x: Read-only file system;"
    assert said["own"] == "touch: .sandbox/x: Read-only file system;"
    assert said["value"] == 'it\'s $HOME "x";'
    assert said["names"] == "# There is no network.;lo;"
    assert said["proxy"] == "[];"
    assert (project / "made").stat().st_uid == 1000
    assert not (project.parent / "made").exists()


@NEEDS_DOCKER
@NEEDS_ROOT
@pytest.mark.exclusive("docker")
def test_docker_runs_it(project: Path) -> None:
    _check(_run(project, ATTEMPTS), project)


@NEEDS_DOCKER
@NEEDS_ROOT
@pytest.mark.exclusive("docker")
def test_another_filter_lets_through_what_ours_denies(project: Path) -> None:
    """The control: everything else is the same, so it is the filter that denies."""
    (project / ".sandbox/devcontainer/seccomp.json").write_text('{"defaultAction": "SCMP_ACT_ALLOW"}')
    assert _run(project, ATTEMPTS)["namespace"] == "made;"


@NEEDS_DOCKER
@NEEDS_ROOT
@pytest.mark.exclusive("docker")
@pytest.mark.skipif(
    process.find("devcontainer") is None, reason="devcontainer (@devcontainers/cli) is not installed"
)
def test_the_reference_implementation_runs_it(project: Path) -> None:
    config = project / ".sandbox/devcontainer/devcontainer.json"
    own = ("--workspace-folder", project, "--config", config)
    up = json.loads(process.run("devcontainer", "up", *own, timeout=120).text.splitlines()[-1])
    try:
        assert (up["outcome"], up["remoteWorkspaceFolder"]) == ("success", str(project))
        lines = process.run(
            "devcontainer", "exec", *own, "/bin/sh", "-c", ATTEMPTS, timeout=60
        ).text.splitlines()
        _check({line.partition(":")[0]: line.partition(":")[2].strip() for line in lines}, project)
    finally:
        process.run("docker", "rm", "--force", up["containerId"])


def test_it_is_rendered_by_name_as_a_form_of_docker() -> None:
    policy = _policy("method: docker\nextends: []\nnetwork: {mode: proxy}\nenvironment: {pass: [TERM]}\n")
    rendered = render(policy, "devcontainer")
    assert rendered.artifacts == _rendered(policy)
    assert [str(each).partition(": ")[2] for each in rendered.findings] == [
        "filesystem.protect holds in part: the directory of a repository is read-only as a whole; what "
        "doesn't exist yet can be made",
        "network.proxy is stricter: a development container has no network, and no launcher connects it to "
        "the proxy",
        "network.later-sockets holds in part: sockets that listen at the start of a run are hidden; "
        "programs inside can create Unix sockets",
        "process.kernel holds in part: which of these paths are masked depends on the version of the engine "
        "or of the node's runtime",
        "environment.pass is stricter: no variable of the host is passed to a development container",
    ]


def test_a_time_must_be_given_up() -> None:
    text = "method: docker\nextends: []\nresources: {time: 30m}\n"
    with pytest.raises(
        RenderError, match=r"resources\.time .*: a development container runs for as long as it is"
    ):
        render(_policy(text), "devcontainer")
    accepted = "accept_gaps: [{feature: resources.time, method: docker, reason: a person closes it}]\n"
    findings = render(_policy(text + accepted), "devcontainer").findings
    assert [each.accepted for each in findings if each.kind == "degraded"] == ["a person closes it"]


FLIPS = [
    "filesystem: {write: [$PROJECT], readonly: [$PROJECT/LICENSE]}",
    "filesystem: {write: [$PROJECT], deny: [$PROJECT/closed]}",
    "filesystem: {write: [$PROJECT], read: [/srv]}",
    "network: {mode: host}",
    "process: {sandbox_root: true}",
    "process: {seccomp: strict}",
    "environment: {set: {A: b}}",
    "user: {mapping: off}",
    "resources: {memory: 2GiB}",
    "resources: {cpus: 2}",
    "resources: {pids: 9}",
    "resources: {files: 9}",
    "image: other",
]


@pytest.mark.parametrize("change", FLIPS)
def test_what_is_declared_is_live(change: str) -> None:
    base = "method: docker\nextends: []\n"
    assert _rendered(_policy(base)) != _rendered(_policy(f"{base}{change}\n"))


def test_it_declares_what_docker_does() -> None:
    """Every feature is declared; no level exceeds Docker's, because no launcher runs here."""
    assert DECLARATION.support.keys() == DECLARATIONS["docker"].keys()
    order = ["cannot", "unused", "partly", "stricter", "exact"]
    for feature, support in DECLARATION.support.items():
        docker = DECLARATIONS["docker"][feature].level
        assert support.level == docker or order.index(support.level) < order.index(docker), feature
