"""The files of a Pod: the project on a volume, its read-only parts, and its hidden parts.

Tests of builder/sandwright_kubernetes/volumes.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cluster.clusters import (
    DIRECTORIES,
    PROJECT,
    WRITES,
    cluster_policy,
    container_of,
    manifests,
    pod_of,
)
from sandwright.errors import RenderError
from sandwright.policy.facts import HostEntry
from sandwright_kubernetes.render import render_kubernetes
from support.goldens import case_policy

PROTECTED = (
    ".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".claude", ".codex", ".config", ".cursor",
    ".devcontainer", ".devcontainer.json", ".envrc", ".exrc", ".gemini", ".gitconfig",
    ".husky", ".idea", ".mcp.json", ".nvim.lua", ".opencode", ".pre-commit-config.yaml",
    ".profile", ".ripgreprc", ".sandbox", ".vim", ".vimrc", ".vscode", ".zlogin", ".zlogout", ".zprofile",
    ".zshenv", ".zshrc", "commondir", "refs", "sandbox.yaml",
)  # fmt: skip
"""The protected names at the top of a project, and the directories on the way to protected ones."""


def _all_mounts(text: str, **facts: Any) -> list[tuple[str, str, str, bool]]:
    """The path, the volume, the path in the volume, and whether it is read-only."""
    mounts = container_of(text, **facts)["volumeMounts"]
    return [
        (each["mountPath"], each["name"], each.get("subPath", ""), each["readOnly"]) for each in mounts[1:]
    ]


def _mounts(text: str, **facts: Any) -> list[tuple[str, str, str, bool]]:
    """The same without the mounts over protected names that don't exist."""
    protected = [f"{PROJECT}/{name}" for name in PROTECTED]
    return [each for each in _all_mounts(text, **facts) if each[0] not in protected or each[1] != "nothing"]


@pytest.mark.parametrize("names", [PROTECTED, (".sandbox", "sandbox.yaml")], ids=["default", "built-in"])
def test_no_protected_name_is_made(names: tuple[str, ...]) -> None:
    text = "" if names == PROTECTED else "extends: []\n"
    text += "filesystem: {write: [$PROJECT]}\n"
    git = {f"{PROJECT}/.git": HostEntry("directory"), **dict.fromkeys(DIRECTORIES, HostEntry("directory"))}
    assert _all_mounts(text, entries=git, git_directories=(f"{PROJECT}/.git",)) == [
        (PROJECT, "project", "", False),
        *sorted(
            [(f"{PROJECT}/{name}", "nothing", "", True) for name in names]
            + [(f"{PROJECT}/.git", "project", ".git", names == PROTECTED)]
        ),
    ]


def test_what_is_on_the_volume() -> None:
    text = (
        "extends: []\nfilesystem:\n  write: [$PROJECT, /srv]\n  readonly: [$PROJECT/LICENSE]\n"
        "  deny: [$PROJECT/closed, $PROJECT/secret.key]\n"
    )
    assert _mounts(text) == [
        (PROJECT, "project", "", False),
        (f"{PROJECT}/LICENSE", "project", "LICENSE", True),
        (f"{PROJECT}/closed", "nothing", "", True),
        (f"{PROJECT}/secret.key", "empty-file", "empty", True),
    ]
    documents = manifests(cluster_policy(text))
    assert documents["configmap.yaml"]["data"] == {"empty": ""}
    assert documents["configmap.yaml"]["immutable"] is True
    volumes = pod_of(text)["volumes"][1:]
    assert volumes == [
        {"name": "project", "persistentVolumeClaim": {"claimName": "project"}},
        {"name": "nothing", "emptyDir": {}},
        {"name": "empty-file", "configMap": {"name": "empty"}},
    ]
    assert container_of(text)["workingDir"] == PROJECT


def test_a_volume_that_is_only_read() -> None:
    text = "extends: []\nfilesystem: {read: [$PROJECT]}\n"
    assert _mounts(text) == [(PROJECT, "project", "", True)]
    claim = {"claimName": "project", "readOnly": True}
    assert pod_of(text)["volumes"][1:] == [{"name": "project", "persistentVolumeClaim": claim}]


def test_part_of_a_project() -> None:
    text = "extends: []\nfilesystem: {write: [$PROJECT/src]}\n"
    own = [(f"{PROJECT}/src/{name}", "nothing", "", True) for name in (".sandbox", "sandbox.yaml")]
    assert _mounts(text) == [(f"{PROJECT}/src", "project", "src", False), *own]
    assert "workingDir" not in container_of(text)


@pytest.mark.parametrize(("kind", "readonly"), [("write", False), ("read", True)])
def test_a_project_in_something_that_is_listed(kind: str, *, readonly: bool) -> None:
    text = f"extends: []\nfilesystem: {{{kind}: [$HOME]}}\n"
    assert _mounts(text) == [(PROJECT, "project", "", readonly)]


def test_what_is_not_there_yet_is_kept_from_being_made() -> None:
    """The first missing name is covered, and the directories above it are pinned: none can be moved away."""
    text = "extends: []\nfilesystem: {write: [$PROJECT], deny: [$PROJECT/src/new/er]}\n"
    assert _mounts(text) == [
        (PROJECT, "project", "", False),
        (f"{PROJECT}/src", "project", "src", False),
        (f"{PROJECT}/src/new", "nothing", "", True),
    ]


GIT = {f"{PROJECT}/.git": HostEntry("directory"), f"{PROJECT}/.git/config": HostEntry("file")}


def test_what_is_missing_in_what_cannot_be_changed() -> None:
    """No mount point is made in a directory that cannot be changed."""
    entries = {**dict.fromkeys(DIRECTORIES, HostEntry("directory")), **GIT}
    text = "filesystem: {write: [$PROJECT], deny: [$PROJECT/.git/new]}\n"
    found = _mounts(text, entries=entries, git_directories=(f"{PROJECT}/.git",))
    assert found == [(PROJECT, "project", "", False), (f"{PROJECT}/.git", "project", ".git", True)]


@pytest.mark.parametrize(
    "more", [{}, {f"{PROJECT}/.git/hooks": HostEntry("directory")}], ids=["plain", "hooks"]
)
def test_a_repository_is_read_only(more: Mapping[str, HostEntry]) -> None:
    """A placeholder over `commondir` would stay, because no program removes it."""
    entries = {**dict.fromkeys(DIRECTORIES, HostEntry("directory")), **GIT, **more}
    text = "filesystem: {write: [$PROJECT]}\n"
    found = _mounts(text, entries=entries, git_directories=(f"{PROJECT}/.git",))
    assert found == [(PROJECT, "project", "", False), (f"{PROJECT}/.git", "project", ".git", True)]


def test_a_repository_without_protection() -> None:
    entries = {**dict.fromkeys(DIRECTORIES, HostEntry("directory")), **GIT}
    git = ("branches", "commondir", "config", "config.worktree", "hooks", "remotes")
    lifted = (*git, "info/attributes", "objects/info/alternates")
    names = [f"{{path: $PROJECT/.git/{name}, reason: mine}}" for name in lifted]
    text = f"filesystem: {{write: [$PROJECT], unprotect: [{', '.join(names)}]}}\n"
    found = _mounts(text, entries=entries, git_directories=(f"{PROJECT}/.git",))
    assert found == [(PROJECT, "project", "", False), (f"{PROJECT}/.git", "project", ".git", False)]


def test_a_repository_below_the_project() -> None:
    """The directories above it can't be moved away with it."""
    inner = {f"{PROJECT}/src/lib": HostEntry("directory"), f"{PROJECT}/src/lib/.git": HostEntry("directory")}
    entries = {**dict.fromkeys(DIRECTORIES, HostEntry("directory")), **inner}
    text = "filesystem: {write: [$PROJECT]}\n"
    found = _mounts(text, entries=entries, git_directories=(f"{PROJECT}/src/lib/.git",))
    assert found == [
        (PROJECT, "project", "", False),
        (f"{PROJECT}/.git", "nothing", "", True),
        (f"{PROJECT}/src", "project", "src", False),
        (f"{PROJECT}/src/lib", "project", "src/lib", False),
        (f"{PROJECT}/src/lib/.git", "project", "src/lib/.git", True),
    ]


def test_sockets_of_the_host_are_not_looked_for() -> None:
    sockets = (f"{PROJECT}/mine", f"{PROJECT}/other")
    entries = {
        **dict.fromkeys(DIRECTORIES, HostEntry("directory")),
        **dict.fromkeys(sockets, HostEntry("socket")),
    }
    text = f"{WRITES}network: {{unix_sockets: [$PROJECT/mine]}}\n"
    assert _mounts(text, entries=entries, sockets=sockets) == [(PROJECT, "project", "", False)]


def test_paths_that_cannot_be_mounted_on() -> None:
    with pytest.raises(RenderError) as refused:
        render_kubernetes(case_policy("hostile-names"))
    assert str(refused.value) == (
        "project sandbox.yaml:18:7: cannot mount on '/home/ada/it\\'s a \"project\" $(x)/a,b:c=d': "
        "Kubernetes takes no ':' in a mountPath"
    )
