"""Reads `devcontainer.json` back, as the tool that starts the container does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandwright.documents.document import Document
from sandwright.documents.jsontext import parse_json
from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Enclosure, Passing
from sandwright.evaluate.explain.shape import OneOf, Shape, check_shape, keys
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked, position_in
from sandwright.methods.docker.devcontainer import FOLDER, PLACE, SETTINGS
from sandwright.methods.shared.engine.explain import filter_of, mounts_of, network_of, option
from sandwright.methods.shared.engine.options import Option, check_options, is_filtered, isolation_of
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered

FILE = "devcontainer.json"

_KEYS: Shape = {
    **keys("name", "image", "init", "shutdownAction", "capAdd", "containerEnv", "securityOpt", "runArgs"),
    **keys("workspaceMount", "workspaceFolder", "containerUser", "remoteUser"),
    "privileged": OneOf((False,)),
    "overrideCommand": OneOf((True,)),
    "updateRemoteUserUID": OneOf((False,)),
    "userEnvProbe": OneOf(("none",)),
    "forwardPorts": OneOf(([],)),
    "otherPortsAttributes": OneOf(({"onAutoForward": "ignore"},)),
    "remoteEnv": OneOf(({"SSH_AUTH_SOCK": ""},)),
    "customizations": {"vscode": {"settings": OneOf((SETTINGS,))}},
}
"""The rendered keys (containers.dev). Commands for the host, features, mounts and all others are refused."""


@dataclass(frozen=True)
class DevContainer(Enclosure):
    """The container of an editor. `home` is empty, and lasts as long as the container."""

    home: str = ""

    def why_looser(self, policy: ResolvedPolicy, question: Asked) -> str:
        """The reason for a visible home: editors install their server there. It has no files of the host."""
        mount = self.mount_over(question.path, policy.facts) if question.path else None
        if mount is not None and mount.kind == "tmpfs" and mount.target == self.home:
            return "an empty home of the container's, for the editor's server"
        return super().why_looser(policy, question)


def read_devcontainer(rendered: Rendered, policy: ResolvedPolicy) -> DevContainer:
    """The container that the file describes, with the project where the tool finds it."""
    document = parse_json(rendered.artifact(FILE).content, file=FILE)
    data: Any = document.data
    check_shape(document, _KEYS, data)
    options = list(_container_options(document, policy.canonical(policy.facts.project)))
    check_options(options, filters=True)
    seccomp_option = f"seccomp={_project_folder(policy)}/{PLACE}/seccomp.json"
    environment = data["containerEnv"]
    return DevContainer(
        "image",
        tuple(mounts_of(options)),
        network=network_of(options),
        environment={
            name: position_in(document, ("containerEnv", name), f"{name}={value}")
            for name, value in environment.items()
        },
        passing=Passing(),
        calls=(
            filter_of(rendered, data["capAdd"])
            if is_filtered(data["securityOpt"], seccomp_option)
            else calls.unfiltered(FILE)
        ),
        isolated=isolation_of(options, ArtifactPosition(FILE, "runArgs")),
        home=environment.get("HOME", ""),
    )


def _project_folder(policy: ResolvedPolicy) -> str:
    """The project as the file has it: by the tool's variable, or where that can't be, by its path."""
    path = policy.canonical(policy.facts.project)
    return path if set(path) & set(',"\r\n') else FOLDER


def _container_options(document: Document, project: str) -> Iterator[Option]:
    """The options of `docker run` that the file has, and the mount of the project as one of them."""
    data: Any = document.data
    for index, word in enumerate(data["runArgs"]):
        yield option(word.replace(FOLDER, project), position_in(document, ("runArgs", index), word))
    for key, name in (("capAdd", "--cap-add"), ("securityOpt", "--security-opt")):
        for index, word in enumerate(data[key]):
            yield name, word, position_in(document, (key, index), word)
    if text := data["workspaceMount"]:
        yield "--mount", text.replace(FOLDER, project), position_in(document, ("workspaceMount",), text)
