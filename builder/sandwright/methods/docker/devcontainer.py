"""Renders the sandbox of the method docker as a development container (containers.dev): for editors.

It is the same container, but nothing of ours starts it: the variables of the host, the time limit, the way to
the proxy and the shims are a launcher's, and are not there. The tool that starts it replaces `${…}` in every
text, so a value that contains `${` is refused. An image can contain further settings (the label
`devcontainer.metadata`), which the tool adds to these, and an editor connects the container to its own
services (agents, credentials).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sandwright.errors import RenderError
from sandwright.methods.docker import support
from sandwright.methods.shared.engine.arguments import (
    limit_arguments,
    mount_argument,
    mount_fields,
    network_arguments,
    scratch_options,
)
from sandwright.methods.shared.engine.container import Container, container, network_files
from sandwright.policy.declaration import Support
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.accounts import group_file, passwd_file
from sandwright.render.artifact import Artifact, json_artifact
from sandwright.render.filters import oci_filter
from sandwright.render.without_placeholders import plan_without_placeholders

PLACE = ".sandbox/devcontainer"
"""The directory in a project that `render` writes to. The sandbox can't write there, unlike in
`.devcontainer`: the tool runs its `initializeCommand` on the host."""

FOLDER = "${localWorkspaceFolder}"

_SUPPORT: Mapping[str, Support] = {
    **support.DECLARATION.support,
    "filesystem.absent": Support("cannot", "no launcher creates the mount points of a development container"),
    "filesystem.protect": Support(
        "partly", "the directory of a repository is read-only as a whole; what doesn't exist yet can be made"
    ),
    "network.proxy": Support(
        "stricter", "a development container has no network, and no launcher connects it to the proxy"
    ),
    "environment.pass": Support("stricter", "no variable of the host is passed to a development container"),
    "credentials.shims": Support(
        "cannot",
        "a development container has no session with a bridge; "
        "a program of that name in the image would be called in a shim's place",
    ),
    "mcp.tools": Support("cannot", "`sandwright run` reads the messages, and does not start the container"),
    "resources.time": Support("cannot", "a development container runs for as long as it is open"),
}

DECLARATION = replace(support.DECLARATION, support=_SUPPORT)
"""The support for each feature of a policy: docker's, except for the launcher's part."""

_VARIABLE = re.compile(r"\$\{.*?\}", re.DOTALL)

Json = dict[str, Any]


def render_devcontainer(policy: ResolvedPolicy) -> tuple[Artifact, ...]:
    """`devcontainer.json`, and the files that it names.

    Raise RenderError for a setting that Docker or the file cannot express.
    """
    if policy.network.mode == "proxy":  # without a launcher there is none
        policy = replace(policy, network=replace(policy.network, mode="none"))
    made = container(policy, plan_without_placeholders(policy, root="image"), "docker")
    files = tuple(_container_files(policy, made))
    document = {
        **_devcontainer_json(policy, made),
        "runArgs": [*_run_arguments(made), *_mount_strings(policy, made)],
    }
    for text in _json_texts(document):
        if _VARIABLE.search(text):
            raise RenderError(f"devcontainer.json cannot hold {text!r}: its readers replace ${{…}}")
    project = _project_source(policy)
    directory = f"{project}/{PLACE}"
    document["runArgs"] += [_overlay(directory, each.name) for each in files if each.name != "seccomp.json"]
    rights = [] if made.gains_rights else ["no-new-privileges"]
    document |= {
        "securityOpt": [*rights, f"seccomp={directory}/seccomp.json"],
        "workspaceMount": _workspace_mount(policy, made, project),
    }
    return json_artifact("devcontainer.json", document, "the sandbox as a development container"), *files


def _container_files(policy: ResolvedPolicy, made: Container) -> Iterator[Artifact]:
    filter_ = oci_filter(policy, host_sockets=made.network == "host", caps=made.capabilities)
    yield json_artifact("seccomp.json", filter_, "the filter of system calls")
    if made.account is not None:
        yield Artifact("passwd", passwd_file(made.account), "the accounts, over the image's /etc/passwd")
        yield Artifact("group", group_file(made.account), "their groups, over the image's /etc/group")
    for name, content in network_files(made).items():
        yield Artifact(name, content, f"over the image's and the engine's /etc/{name}")


def _devcontainer_json(policy: ResolvedPolicy, made: Container) -> Json:
    """The part that is independent of the project's path."""
    project = policy.canonical(policy.facts.project)
    document: Json = {
        "name": project.rpartition("/")[2] or "sandbox",
        "image": made.image,
        "init": True,
        "privileged": False,
        "overrideCommand": True,
        "shutdownAction": "stopContainer",
        "updateRemoteUserUID": False,
        "userEnvProbe": "none",
        "forwardPorts": [],
        "otherPortsAttributes": {"onAutoForward": "ignore"},
        "capAdd": list(made.capabilities),
        "containerEnv": dict(_container_environment(made)),
        "remoteEnv": {"SSH_AUTH_SOCK": ""},
        "customizations": {"vscode": {"settings": SETTINGS}},
        "workspaceFolder": made.directory,
    }
    if made.user is not None:
        document |= dict.fromkeys(("containerUser", "remoteUser"), ":".join(map(str, made.user)))
    return document


SETTINGS = {"git.terminalAuthentication": False, "remote.autoForwardPorts": False}
"""The settings that keep VS Code from sharing Git's credentials and forwarding ports by itself."""


def _container_environment(made: Container) -> Iterator[tuple[str, str]]:
    """The variables that are set. Those that Docker's client would take from elsewhere are set to nothing."""
    yield from dict.fromkeys(made.unset, "").items()
    if made.account is not None:
        yield "HOME", made.account.home
    yield from made.environment.items()


def _run_arguments(made: Container) -> Iterator[str]:
    """The container's options for which devcontainer.json has no key."""
    yield from ("--read-only", "--no-healthcheck", "--cap-drop=ALL", "--ipc=private", "--cgroupns=private")
    yield from ("--pull=never",) if made.ours else ()
    yield from (*network_arguments(made), f"--hostname={made.hostname}")
    yield from limit_arguments(made.limits)


def _mount_strings(policy: ResolvedPolicy, made: Container) -> Iterator[str]:
    """All but the project itself, and a home that can be written: editors put their server there."""
    project = policy.canonical(policy.facts.project)
    for bind in made.binds:
        if bind.target != project:
            access = () if bind.writable else ("readonly",)
            yield mount_argument("type=bind", f"src={bind.source}", f"dst={bind.target}", *access)
    for path in made.files:
        yield mount_argument("type=bind", "src=/dev/null", f"dst={path}", "readonly")
    for path in made.folders:
        yield mount_argument("type=tmpfs", f"dst={path}", "ro", "tmpfs-mode=0555")
    home = made.account.home if made.account is not None else ""
    places = {each.target for each in made.binds} | {*made.folders}
    for path in dict.fromkeys([*made.scratch, *([home] if home and home not in places else [])]):
        if ":" in path:
            raise RenderError(f"Docker takes no colon in a tmpfs directory: {path!r}")
        owner = ",uid={},gid={}".format(*made.user) if path == home and made.user is not None else ""
        yield f"--tmpfs={path}:{scratch_options()}{owner}"


def _project_source(policy: ResolvedPolicy) -> str:
    """The project's directory on the host: as a variable, if its value contains no further variable.

    Raise RenderError for a path that would be replaced in part.
    """
    path = policy.canonical(policy.facts.project)
    if not set(path) & set(',"\r\n'):
        return FOLDER
    if _VARIABLE.search(path):
        raise RenderError(f"devcontainer.json cannot hold {path!r}: its readers replace ${{…}}")
    return path


def _overlay(directory: str, name: str) -> str:
    return mount_argument("type=bind", f"src={directory}/{name}", f"dst=/etc/{name}", "readonly")


def _workspace_mount(policy: ResolvedPolicy, made: Container, source: str) -> str:
    """The project; nothing, where the policy doesn't bring in all of it."""
    project = policy.canonical(policy.facts.project)
    for bind in made.binds:
        if bind.target == project:
            access = () if bind.writable else ("readonly",)
            return mount_fields("type=bind", f"source={source}", f"target={project}", *access)
    return ""


def _json_texts(value: object) -> Iterator[str]:
    """Every text in JSON data, keys among them."""
    match value:
        case str():
            yield value
        case dict():
            for key, each in value.items():
                yield key
                yield from _json_texts(each)
        case list():
            for each in value:
                yield from _json_texts(each)
