"""Podman plays the Pod: the filter, the read-only root, the user, the mounts, each with its control.

There is no cluster here. Properties of the Job alone (the volume, the NetworkPolicy, its time) are not
proved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from sandwright import process
from sandwright.api import Policy
from sandwright.methods.registry import render
from sandwright.policy.collect import collect_facts
from sandwright.render.artifact import Artifact
from support.cgroups import needs_groups
from support.goldens import write_artifacts
from support.pods import PodmanStore, podman_store

pytestmark = [
    pytest.mark.needs("podman", "busybox"),
    needs_groups,  # the Pod's memory is limited
    pytest.mark.exclusive("pods"),
]

IMAGE = "localhost/sandwright-pod:1"
ATTEMPTS = r"""
say() { printf '%s: %s\n' "$1" "$(eval "$2" 2>&1 | tr '\n' ';')"; }
say user 'id -u; id -g; id -G'
say status 'grep -E "^(Cap|NoNewPrivs|Seccomp:)" /proc/self/status'
say namespace 'unshare -U true && echo made'
say inet 'nc 127.0.0.1 9'
say root 'touch /made && echo written'
say tmp 'touch /tmp/made && echo written'
say project 'touch made && echo written'
say license 'echo x >LICENSE && echo written'
say closed 'ls closed; touch closed/x && echo written'
say secret 'cat secret.key && echo read'
say absent 'mkdir new/x && echo written'
say moved 'mv src elsewhere && echo moved'
say inside 'touch src/made && echo written'
say repository 'touch .git/x && echo written'
say value 'echo "$VALUE"'
say names 'env | grep -c "^VALUE="; env | grep -E "TOKEN|HOME_OF_HOST"'
say memory 'cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes'
say devices 'ls /dev | grep -E "^(mem|sda|kmsg)$"'
"""
POLICY = """\
schema: 1
method: kubernetes
extends: []
filesystem:
  write: [$PROJECT]
  readonly: [$PROJECT/LICENSE]
  deny: [$PROJECT/closed, $PROJECT/secret.key, $PROJECT/src/new, $PROJECT/new]
  protect: [.git/config, .git/commondir]
environment: {set: {VALUE: "it's $$(HOME) $$$$ \\"x\\""}}
resources: {memory: 64MiB}
"""
POLICY += f"image: {IMAGE}\n"


@dataclass(frozen=True)
class Played:
    """The output of a Pod, by the name of each attempt."""

    said: dict[str, str]
    status: int


@pytest.fixture(scope="module")
def store() -> Iterator[PodmanStore]:
    with podman_store() as made:
        made.load(IMAGE, ["/bin/sh", "/attempts"], {"attempts": ATTEMPTS.encode()})
        yield made


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "home" / "p"
    for name in (".git/config", "closed/inner", "src/code", "LICENSE", "secret.key"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("content\n")
    for path in (project, *project.rglob("*")):
        path.chmod(0o777)
    return project


def _rendered(project: Path, text: str = POLICY) -> tuple[Artifact, ...]:
    policy = Policy.from_text(text)
    facts = collect_facts(policy, project=project, environ={"HOME": str(project.parent)})
    return render(policy.resolve(facts), "kubernetes").artifacts


def _play(store: PodmanStore, folder: Path, profiles: Path, *options: str) -> process.Result:
    root = ("--seccomp-profile-root", str(profiles))
    return store.run("kube", "play", *options, *root, str(folder / "pod.yaml"), check=False)


def _said(store: PodmanStore, folder: Path, profiles: Path, *options: str) -> Played:
    played = _play(store, folder, profiles, *options)
    assert played, played.stderr
    name = yaml.safe_load((folder / "pod.yaml").read_bytes())["metadata"]["name"]
    try:
        status = int(store.run("wait", f"{name}-sandbox").text)
        lines = store.run("logs", f"{name}-sandbox").text.splitlines()
        return Played({line.partition(":")[0]: line.partition(":")[2].strip() for line in lines}, status)
    finally:
        store.run("pod", "rm", "--force", "--time", "0", name)
        store.run("volume", "prune", "--force")


@pytest.fixture
def folder(project: Path, tmp_path: Path) -> Path:
    return write_artifacts(tmp_path / "kubernetes", _rendered(project))


@pytest.fixture
def profiles(folder: Path, tmp_path: Path) -> Path:
    """The place for profiles, with the rendered one in it."""
    process.run(folder / "install-profile", tmp_path / "profiles")
    return tmp_path / "profiles"


DENIED = "touch: {}: Read-only file system;"


def test_podman_runs_the_pod(store: PodmanStore, folder: Path, profiles: Path, project: Path) -> None:
    played = _said(store, folder, profiles, "--network", "none")
    said = played.said
    assert played.status == 0
    assert said["user"] == "65532;65532;65532;"
    assert "CapEff:\t0000000000000000;" in said["status"]
    assert "CapBnd:\t0000000000000000;" in said["status"]
    assert "NoNewPrivs:\t1;Seccomp:\t2;" in said["status"]
    assert said["namespace"] == "unshare: unshare(0x10000000): Operation not permitted;"
    assert said["inet"] == "nc: socket: Operation not permitted;"
    assert said["root"] == DENIED.format("/made")
    assert said["tmp"] == said["project"] == said["inside"] == "written;"
    assert "LICENSE: Read-only file system;" in said["license"]
    assert said["closed"] == DENIED.format("closed/x")
    assert "content" not in said["secret"]
    assert "Read-only file system" in said["absent"]
    assert "Device or resource busy" in said["moved"]
    assert said["repository"] == DENIED.format(".git/x")
    assert said["value"] == 'it\'s $(HOME) $$ "x";'
    assert said["names"] == "1;"
    assert "67108864;" in said["memory"]
    assert said["devices"] == ""
    assert (project / "made").exists()
    assert (project / "LICENSE").read_text() == "content\n"


def test_another_filter_lets_through_what_ours_denies(
    store: PodmanStore, folder: Path, profiles: Path
) -> None:
    """The control: everything else is the same, so it is the filter that denies."""
    (profile,) = profiles.rglob("*.json")
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW"}))
    said = _said(store, folder, profiles, "--network", "none").said
    assert said["namespace"] == "made;"
    assert said["inet"] == "nc: can't connect to remote host (127.0.0.1): Connection refused;"
    assert said["root"] == DENIED.format("/made")


def test_without_the_filter_nothing_starts(store: PodmanStore, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    played = _play(store, folder, tmp_path / "none", "--network", "none")
    assert not played
    assert "opening seccomp profile failed" in played.stderr + played.text
    store.run("pod", "rm", "--all", "--force", "--time", "0")


def test_a_network_that_is_open(store: PodmanStore, project: Path, tmp_path: Path) -> None:
    """The control of the closed network: the host's own, which only the policy's `host` permits."""
    folder = write_artifacts(tmp_path / "open", _rendered(project, f"{POLICY}network: {{mode: host}}\n"))
    process.run(folder / "install-profile", tmp_path / "profiles")
    said = _said(store, folder, tmp_path / "profiles", "--network", "none").said
    assert said["inet"] == "nc: can't connect to remote host (127.0.0.1): Connection refused;"
    assert said["namespace"] == "unshare: unshare(0x10000000): Operation not permitted;"


def test_the_profile_is_put_in_place_whole(folder: Path, tmp_path: Path) -> None:
    """The kubelet can read it under its digest, and it equals the rendered profile."""
    target = tmp_path / "a folder"
    (made,) = process.run(folder / "install-profile", target).text.splitlines()
    assert Path(made).read_bytes() == (folder / "seccomp.json").read_bytes()
    assert (Path(made).stat().st_mode & 0o777, [p.name for p in Path(made).parent.iterdir()]) == (
        0o644,
        [Path(made).name],
    )
    (folder / "seccomp.json").write_text("{}")
    refused = process.run(folder / "install-profile", tmp_path / "other", check=False)
    assert (refused.status, (tmp_path / "other").exists()) == (1, False)
    assert "was changed after it was rendered" in refused.stderr
