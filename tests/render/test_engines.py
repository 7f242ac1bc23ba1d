"""Arguments, services and launchers of Docker and Podman: golden, and no value adds an option.

Tests of methods/docker/render.py.
Tests of methods/podman/render.py.
Tests of methods/shared/engine/arguments.py: options, limits of resources.
Tests of methods/shared/engine/compose.py: the same container as a service of a Compose file.
Tests of methods/shared/engine/container.py.
Tests of methods/shared/engine/options.py.
Tests of methods/shared/engine/render.py.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sandwright import process
from sandwright.api import Policy
from sandwright.errors import RenderError
from sandwright.evaluate.explain.variables import rows_of
from sandwright.launcher.plan import LaunchPlan, parse_plan
from sandwright.methods import registry
from sandwright.methods.registry import artifacts
from sandwright.methods.shared.engine.arguments import limits_of_processors
from sandwright.policy.facts import HostEntry, HostFacts
from sandwright.render.artifact import Artifact
from support.goldens import CASES, case_policy, write_artifacts
from support.thorough import examples

ENGINES = ("docker", "podman")
HOME, PROJECT = "/home/u", "/home/u/p"
DIRECTORIES = ("/", "/home", HOME, PROJECT, f"{PROJECT}/d", "/srv", "/usr", "/usr/data")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_host_with_macos(engine: str, case: str) -> None:
    """The containers run in a machine with Linux, where the paths are the same. The gate reads it, too."""
    rendered = registry.render(case_policy(case, facts="facts-darwin.json"), engine)
    words = [word for word, _ in rows_of(rendered)["options"][0]]
    assert "--user=501:20" in words
    assert any(word.startswith("--tmpfs=/tmp:") for word in words)


def _artifacts(engine: str, text: str, **facts: Any) -> tuple[Artifact, ...]:
    entries = {**dict.fromkeys(DIRECTORIES, HostEntry("directory")), f"{PROJECT}/f": HostEntry("file")}
    base: dict[str, Any] = {"os": "linux", "home": HOME, "project": PROJECT, "entries": entries}
    policy = Policy.from_text(text).resolve(HostFacts(**{**base, **facts}))
    return artifacts(policy, engine)


def _text(artifacts: tuple[Artifact, ...], name: str) -> str:
    return next(each.content.decode() for each in artifacts if each.name == name)


def _plan(artifacts: tuple[Artifact, ...]) -> LaunchPlan:
    return parse_plan(next(each.content for each in artifacts if each.name == "launch.plan"))


def _words(artifacts: tuple[Artifact, ...]) -> list[str]:
    """The rendered words of `run`, and the mounts that `launch` adds."""
    plan = _plan(artifacts)
    hidden = (f"--mount=type=bind,readonly,{fields}" for fields in plan.engine.hidden_files)
    return [*plan.engine.options, *hidden]


KNOWN = {
    "--rm", "--interactive", "--pull", "--read-only", "--entrypoint", "--no-healthcheck", "--log-driver",
    "--detach-keys", "--ipc", "--cgroupns", "--network", "--hostname", "--workdir", "--init", "--cap-drop",
    "--cap-add", "--security-opt", "--user", "--userns", "--memory", "--memory-swap", "--cpu-period",
    "--cpu-quota", "--pids-limit", "--ulimit", "--mount", "--volume", "--tmpfs", "--env", "--read-only-tmpfs",
    "--image-volume", "--systemd", "--http-proxy", "--env-host",
}  # fmt: skip


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, _, value = word.partition("=")
        assert name in KNOWN, word
        yield name, value


def _mounts(words: list[str]) -> dict[str, dict[str, str]]:
    """The mounts by target."""
    found: dict[str, dict[str, str]] = {}
    for name, value in _options(words):
        if name == "--mount":
            (fields,) = csv.reader(io.StringIO(value, newline=""), strict=True)
            mount = {key: text for key, _, text in (each.partition("=") for each in fields)}
        elif name == "--volume":
            source, target, access = value.split(":")
            mount = {"type": "bind", "src": source, "dst": target, "bind-propagation": "rprivate"}
            mount |= {"readonly": ""} if access == "ro,rprivate" else {}
        else:
            continue
        assert mount["dst"] not in found
        found[mount["dst"]] = mount
    return found


def _service(artifacts: tuple[Artifact, ...]) -> dict[str, Any]:
    """The service of the Compose file after Compose's replacement of variables."""
    document = yaml.safe_load(_text(artifacts, "compose.yaml"))
    assert document.keys() == {"name", "services"}
    assert document["services"].keys() == {"sandbox"}
    service: dict[str, Any] = _interpolated(document["services"]["sandbox"])
    return service


def _interpolated(value: Any) -> Any:
    match value:
        case str():
            assert "$" not in value.replace("$$", ""), "a variable would be replaced"
            return value.replace("$$", "$")
        case dict():
            return {key: _interpolated(item) for key, item in value.items()}
        case list():
            return [_interpolated(item) for item in value]
        case _:
            return value


@pytest.mark.parametrize("engine", ENGINES)
def test_what_every_container_has(engine: str) -> None:
    words = _words(_artifacts(engine, "extends: []"))
    for word in (
        "--rm", "--pull=never", "--read-only", "--entrypoint=", "--ipc=private", "--cgroupns=private",
        "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=1000:1000",
        "--ulimit=core=0:0", "--hostname=sandbox", "--workdir=/", "--env=HOME=/home/u",
        "--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777,size=1048576k",
    ):  # fmt: skip
        assert words.count(word) == 1, word
    assert not [word for word in words if "privileged" in word and "no-new" not in word]
    assert ("--userns=keep-id" in words) is (engine == "podman")
    assert ("--env-host=false" in words) is (engine == "podman")


@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_as_a_service(engine: str) -> None:
    text = "extends: []\nfilesystem: {write: [$PROJECT], readonly: [$PROJECT/d], deny: [$PROJECT/f]}\n"
    service = _service(
        _artifacts(engine, f"{text}resources: {{memory: 8MiB, cpus: 1.5, pids: 9, files: 8}}\n")
    )
    volumes = service.pop("volumes")
    assert service.pop("userns_mode", None) == ("keep-id" if engine == "podman" else None)
    empty = [f"{name}=" for name in ("ALL_PROXY", "FTP_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")]
    assert service == {
        "image": "sandwright/debian:latest", "pull_policy": "never", "init": True, "entrypoint": [],
        "stdin_open": True, "hostname": "sandbox", "working_dir": PROJECT, "network_mode": "none",
        "labels": {"sandwright.session": "compose"}, "logging": {"driver": "none"}, "restart": "no",
        "healthcheck": {"disable": True}, "read_only": True, "ipc": "private", "cgroup": "private",
        "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true", "seccomp:./seccomp.json"],
        "user": "1000:1000", "mem_limit": 8388608, "memswap_limit": 8388608, "cpu_period": 100000,
        "cpu_quota": 150000, "pids_limit": 9,
        "ulimits": {"core": {"soft": 0, "hard": 0}, "nofile": {"soft": 8, "hard": 8}},
        "environment": ["HOME=/home/u", "SANDWRIGHT_INSIDE=1", *empty, *map(str.lower, empty)],
        "tmpfs": ["/tmp:rw,exec,nosuid,nodev,mode=1777,size=1048576k"],
    }  # fmt: skip
    bind = {"create_host_path": False, "propagation": "rprivate"}
    closed = {"type": "bind", "read_only": True, "bind": bind}
    names = ("passwd", "group", "hosts", "resolv.conf")
    files = [{**closed, "source": f"./{name}", "target": f"/etc/{name}"} for name in names]
    own = [
        {"type": "bind", "source": PROJECT, "target": PROJECT, "read_only": False, "bind": bind},
        {"type": "bind", "source": f"{PROJECT}/d", "target": f"{PROJECT}/d", "read_only": True, "bind": bind},
        {"type": "bind", "source": "/dev/null", "target": f"{PROJECT}/f", "read_only": True, "bind": bind},
    ]
    assert volumes == [*own, *files]


def test_a_service_can_not_guard_a_repository_but_as_a_whole() -> None:
    """The launcher makes a file that protects hooks; Compose has no such step."""
    names = (".git", ".git/hooks")
    entries = {**dict.fromkeys(DIRECTORIES, HostEntry("directory"))}
    entries |= {f"{PROJECT}/{name}": HostEntry("directory") for name in names}
    artifacts = _artifacts("docker", "", entries=entries, git_directories=(f"{PROJECT}/.git",))
    arguments = _mounts(_words(artifacts))
    assert "readonly" not in arguments[f"{PROJECT}/.git"]
    assert arguments[f"{PROJECT}/.git/commondir"]["readonly"] == ""
    volumes = {each["target"]: each["read_only"] for each in _service(artifacts)["volumes"]}
    assert f"{PROJECT}/.git/commondir" not in volumes
    assert volumes[f"{PROJECT}/.git"] is True
    assert volumes[PROJECT] is False
    assert "are read-only as a whole" in _text(artifacts, "compose.yaml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user: {mapping: off}", {"--user": None, "--userns": None}),
        ("user: {mapping: required}", {"--user": "1000:1000"}),
        ("process: {sandbox_root: true}", {"--user": "0:0", "--userns": None}),
        ("network: {mode: host}", {"--network": "host"}),
        ("network: {mode: proxy}", {"--network": None}),  # `launch` makes one, or refuses
        ("resources: {memory: 1GiB}", {"--memory": "1073741824b", "--memory-swap": "1073741824b"}),
        ("resources: {cpus: 0.5}", {"--cpu-period": "100000", "--cpu-quota": "50000"}),
        ("resources: {pids: 7}", {"--pids-limit": "7"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_a_field_changes(engine: str, text: str, expected: Mapping[str, str | None]) -> None:
    options = dict(_options(_words(_artifacts(engine, f"extends: []\n{text}\n"))))
    assert {name: options.get(name) for name in expected} == expected


def test_root_keeps_its_numbers() -> None:
    for engine in ENGINES:
        words = _words(_artifacts(engine, "extends: []", uid=0, gid=0, user="root"))
        assert "--user=0:0" in words
        assert "--userns=keep-id" not in words


def test_capabilities_only_for_the_privileged() -> None:
    words = _words(_artifacts("docker", "extends: []\nprocess: {sandbox_root: true}\n"))
    added = [word.removeprefix("--cap-add=") for word in words if word.startswith("--cap-add=")]
    assert added == ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"]
    assert "--cap-drop=ALL" in words
    assert "--security-opt=no-new-privileges" not in words


@pytest.mark.parametrize(
    ("cpus", "share"),
    [(2, (100000, 200000)), (0.01, (100000, 1000)), (0.009, (1000000, 9000)), (0.001, (1000000, 1000))],
)
def test_the_least_share_of_a_processor_is_one_that_the_kernel_takes(
    cpus: float, share: tuple[int, int]
) -> None:
    assert limits_of_processors(cpus) == share


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ("debian", "sandwright/debian:latest"),
        ("distroless", "sandwright/distroless:latest"),
        ("dev", "sandwright/dev:latest"),
        ("more", "more"),
        ("debian:bookworm", "debian:bookworm"),
        ("busybox", "busybox"),
        ("registry.example.org/a/b@sha256:" + "0" * 64, "registry.example.org/a/b@sha256:" + "0" * 64),
    ],
)
def test_references(image: str, reference: str) -> None:
    artifacts = _artifacts("docker", f"image: {json.dumps(image)}")
    assert _plan(artifacts).engine.started == (reference,)
    assert _service(artifacts)["image"] == reference
    ours = reference.startswith("sandwright/")
    load = f"sandwright export-image {image} --to {image}.tar && docker load --input {image}.tar"
    assert (load in str(_plan(artifacts).engine.image_missing)) is ours


@pytest.mark.parametrize(("image", "also"), [("dev", " --name dev"), ("debian:bookworm", "")])
def test_one_command_builds_all_images_that_are_missing(image: str, also: str) -> None:
    """The proxy's image is checked first: its message names the other missing image, too."""
    plan = _plan(_artifacts("docker", f"{{image: {json.dumps(image)}, network: {{mode: proxy}}}}"))
    assert f"is not here: sandwright build-images --name proxy{also}, or" in str(plan.engine.proxy_missing)
    assert also in str(plan.engine.image_missing)


def test_what_an_engine_is_never_told() -> None:
    def deny(path: str) -> str:
        return json.dumps({"extends": [], "filesystem": {"write": ["$PROJECT"], "readonly": [path]}})

    odd = {f"{PROJECT}/{name}": HostEntry("directory") for name in ("a\r\nb", "a:\r\nb", "a: ")}
    entries = {**dict.fromkeys(DIRECTORIES, HostEntry("directory")), **odd}
    for engine in ENGINES:
        assert _mounts(_words(_artifacts(engine, deny(f"{PROJECT}/a\r\nb"), entries=entries)))
        for name in ("a:\r\nb", "a: "):
            with pytest.raises(RenderError, match=r"cannot pass .* to an engine"):
                _artifacts(engine, deny(f"{PROJECT}/{name}"), entries=entries)
    socket = f"{PROJECT}/\udce9"
    seen = {**entries, socket: HostEntry("socket")}
    hidden = r"docker takes names in UTF-8 only, and '/home/u/p/\\udce9' is none"
    with pytest.raises(RenderError, match=hidden):
        _artifacts("docker", "filesystem: {write: [$PROJECT]}", entries=seen, sockets=(socket,))
    with pytest.raises(RenderError, match="Docker starts nothing with less than 6MiB, not with 6291455 B"):
        _artifacts("docker", "resources: {memory: 6291455B}")
    assert _artifacts("podman", "resources: {memory: 6291455B}")


NAMES = st.text(
    st.characters(exclude_categories=["Cs"], max_codepoint=0xFFFF, exclude_characters="\0/*?\x85\r"),
    max_size=9,
) | st.sampled_from(
    [",readonly", '"', 'a",dst=/x,"', "$HOME", "`id`", "\n--privileged", "'", '" \\\n', "a,b=c"]
)
GOOD = NAMES.filter(lambda name: name not in ("", ".", "..") and (":" not in name or name == name.rstrip()))
TEXTS = NAMES | st.sampled_from(
    ["--privileged", "a\n- b", "}", "$(id)", "$$", "# x", ": ", "no", "0o14", "1:2"]
)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(GOOD, max_size=3, unique=True), TEXTS, st.sampled_from(ENGINES))
def test_no_value_adds_anything(names: list[str], value: str, engine: str) -> None:
    """Names and a value add only their plain meaning to the arguments and the service."""
    paths = [f"/srv/{name}" for name in names]
    files = {"read": [path.replace("$", "$$") for path in paths], "write": ["$PROJECT"]}
    data = {"extends": [], "filesystem": files, "environment": {"set": {"VALUE": value.replace("$", "$$")}}}
    entries = dict.fromkeys((*DIRECTORIES, *paths), HostEntry("directory"))
    artifacts = _artifacts(engine, json.dumps(data), entries=entries)
    plain = _artifacts(engine, json.dumps({"extends": [], "filesystem": {"write": ["$PROJECT"]}}))
    words, own = _words(artifacts), _words(plain)
    mounts = _mounts(words)
    assert mounts.keys() - _mounts(own).keys() == set(paths)
    for path in paths:
        expected = {"type": "bind", "src": path, "dst": path, "bind-propagation": "rprivate", "readonly": ""}
        assert mounts[path] == expected
    added = sorted(set(words) - set(own))
    assert len(added) == len(paths) + 1
    assert f"--env=VALUE={value}" in added
    assert len(words) == len(own) + len(added)
    service, before = _service(artifacts), _service(plain)
    volumes = [each for each in service["volumes"] if each not in before["volumes"]]
    assert sorted(each["source"] for each in volumes) == sorted(paths)
    assert [each for each in volumes if each["source"] != each["target"] or not each["read_only"]] == []
    assert set(service["environment"]) - set(before["environment"]) == {f"VALUE={value}"}
    changed = {"volumes": 0, "environment": 0}
    assert {**service, **changed} == {**before, **changed}


CLIENT = """\
#!/bin/sh
case $1 in
info) printf '%s\\n' "$SAYS" ;;
run) shift; printf '%s\\0' "$@" ;;
esac
"""
"""A client that only prints its arguments. test_engines_run.py has the tests with an engine."""


@pytest.fixture
def asked(tmp_path: Path) -> Any:
    """The client's commands from a policy's launcher."""
    client = tmp_path / "bin" / "docker"
    client.parent.mkdir()
    client.write_text(CLIENT)
    client.chmod(0o755)
    (tmp_path / "session").mkdir()

    def run(text: str, *command: str, folder: str = "out", **environment: str) -> process.Result:
        artifacts = _artifacts(
            "docker", text, uid=os.getuid(), gid=os.getgid(), entries={}, project="/nowhere"
        )
        where = write_artifacts(tmp_path / folder, artifacts)
        path = f"{client.parent}:{os.environ['PATH']}"
        env = {"PATH": path, "XDG_RUNTIME_DIR": f"{tmp_path}/session", "HOME": str(tmp_path), **environment}
        return process.run(f"{where}/launch", *command, env=env, timeout=20, check=False)

    return run


def test_the_launcher_asks_for_nothing_else(asked: Any, tmp_path: Path) -> None:
    text = "extends: []\nenvironment: {pass: [A, 'B_*']}\n"
    result = asked(text, "echo", "--privileged", A="1", B_C="2 3", C="no", SANDWRIGHT_SESSION="s-1")
    assert result.status == 0, result.stderr
    words = result.stdout.decode().split("\0")[:-1]
    rendered = _words(
        _artifacts("docker", text, uid=os.getuid(), gid=os.getgid(), entries={}, project="/nowhere")
    )
    assert words[: len(rendered)] == rendered
    more = words[len(rendered) :]
    name = more.pop(0).removeprefix("--name=")
    assert re.fullmatch(r"sandwright-[0-9A-Za-z]{10}", name)
    here = f"{tmp_path}/out"
    over = [f'--mount=type=bind,readonly,"src={here}/{each}",dst=/etc/{each}'
            for each in ("passwd", "group", "hosts", "resolv.conf")]  # fmt: skip
    init = f'--mount=type=bind,readonly,"src={here}/launch-init",dst=/.sandwright-init'
    runs = f"{tmp_path}/session/sandwright/runs"
    gate = f'--mount=type=bind,readonly,"src={runs}/{name}/gate",dst=/.sandwright-gate'
    assert more == [
        f"--cidfile={runs}/{name}/cid", "--label=sandwright.session=s-1",
        f"--security-opt=seccomp={here}/seccomp.json", *over, "--env=A", "--env=B_C", init, gate,
        "sandwright/debian:latest", "/.sandwright-init", "--gate", "/.sandwright-gate", "--init", "-",
        "echo", "--privileged",
    ]  # fmt: skip
    assert list((tmp_path / "session").glob("sandwright/runs/*")) == []


def test_a_directory_whose_name_csv_would_take_apart(asked: Any, tmp_path: Path) -> None:
    folder = 'a "q", dst=/x\nb'
    words = asked("extends: []", "true", folder=folder).stdout.decode().split("\0")
    mounts = _mounts([word for word in words if word.startswith("--mount=")])
    assert mounts["/etc/passwd"]["src"] == f"{tmp_path}/{folder}/passwd"
    files = {f"/etc/{name}" for name in ("passwd", "group", "hosts", "resolv.conf")}
    assert mounts.keys() == {*files, "/.sandwright-init", "/.sandwright-gate"}


ROOTLESS = "[name=seccomp,profile=builtin name=rootless name=cgroupns]"
REMAPPED = "[name=seccomp,profile=builtin name=userns]"


@pytest.mark.parametrize(
    ("mapping", "environment", "user", "files"),
    [
        ("auto", {}, None, {"passwd", "group"}),
        ("auto", {"DOCKER_HOST": "unix:///x"}, None, {"passwd", "group"}),
        ("auto", {"DOCKER_HOST": "unix:///x", "SAYS": ROOTLESS}, "--user=0:0", {"passwd"}),
        ("auto", {"DOCKER_CONTEXT": "rootless", "SAYS": ROOTLESS}, "--user=0:0", {"passwd"}),
        ("required", {"SAYS": ROOTLESS}, "--user=0:0", {"passwd"}),
        ("required", {"SAYS": "[name=seccomp,profile=builtin]"}, None, {"passwd", "group"}),
        ("off", {"DOCKER_HOST": "unix:///x", "SAYS": ROOTLESS}, None, set()),
    ],
)
@pytest.mark.skipif(not Path("/var/run/docker.sock").is_socket(), reason="there is no daemon with root here")
def test_root_of_a_docker_without_root_is_its_caller(
    asked: Any, mapping: str, environment: dict[str, str], user: str | None, files: set[str]
) -> None:
    """The launcher writes its account file: root's home is the caller's."""
    text = f"extends: []\nuser: {{mapping: {mapping}}}\n"
    words = asked(text, "true", **environment).stdout.decode().split("\0")
    last = [word for word in words if word.startswith("--user=")][-1:]
    own = f"--user={os.getuid()}:{os.getgid()}"
    assert last == ([user] if user else [] if mapping == "off" else [own])
    assert {
        name for name in ("passwd", "group") if any(f"dst=/etc/{name}" in word for word in words)
    } == files


def test_a_docker_that_gives_files_away(asked: Any) -> None:
    text = "extends: []\nuser: {mapping: required}\n"
    refused = asked(text, "true", SAYS=REMAPPED)
    assert (refused.status, refused.stdout) == (125, b"")
    assert "userns-remap" in refused.stderr
    assert asked(text.replace("required", "auto"), "true", SAYS=REMAPPED).status == 0


def test_somebody_else_s_launcher(tmp_path: Path) -> None:
    artifacts = _artifacts("docker", "extends: []", uid=os.getuid() + 1)
    where = write_artifacts(tmp_path, artifacts)
    refused = process.run(f"{where}/launch", "true", timeout=20, check=False)
    assert refused.status == 125
    assert f"this was rendered for user {os.getuid() + 1}, who would own new files" in refused.stderr


def test_a_throwaway_home_belongs_to_the_containers_user() -> None:
    """Docker makes the working directory in it as root, and runc gives a tmpfs the mode of that directory."""
    made = _artifacts("docker", "filesystem: {home: throwaway, write: [$PROJECT]}\n", uid=1000, gid=100)
    owned = f"{HOME}:rw,exec,nosuid,nodev,mode=1777,size=1048576k,uid=1000,gid=100"
    assert f"--tmpfs={owned}" in _words(made)
    service = yaml.safe_load(_text(made, "compose.yaml"))["services"]["sandbox"]
    assert owned in service["tmpfs"]
    podmans = _artifacts("podman", "filesystem: {home: throwaway, write: [$PROJECT]}\n", uid=1000, gid=100)
    assert not any("uid=1000" in word for word in _words(podmans)), "it takes no such option, nor needs one"
