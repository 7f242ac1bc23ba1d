"""Reads the Compose file back, as `docker compose` does, and the filter beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from sandwright.documents.document import Document, Path
from sandwright.documents.yaml import parse_yaml
from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Enclosure, Passing
from sandwright.evaluate.explain.shape import Each, OneOf, Shape, check_shape, keys
from sandwright.evaluate.explain.verdict import ArtifactPosition, Asked, position_in
from sandwright.methods.shared.engine.compose import ABSENT_NAMES, SERVICE
from sandwright.methods.shared.engine.explain import (
    PlacedMount,
    check_tmpfs,
    filter_of,
    in_order,
    masks_of,
    mount_of,
    tmpfs_of,
)
from sandwright.methods.shared.engine.options import Option, check_options, is_filtered, isolation_of
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.rendered import Rendered

FILE = "compose.yaml"
_SERVICE: Path = ("services", SERVICE)

_VOLUME: Shape = {
    **keys("type", "source", "target", "read_only"),
    "bind": {"create_host_path": OneOf((False,)), "propagation": OneOf(("rprivate",))},
    "tmpfs": keys("mode"),
}
_FILE: Shape = {
    "name": None,
    "services": {
        SERVICE: {
            **keys("image", "init", "stdin_open", "hostname", "working_dir", "network_mode", "labels"),
            **keys(
                "read_only", "ipc", "cgroup", "cap_drop", "cap_add", "security_opt", "user", "userns_mode"
            ),
            **keys("ulimits", "mem_limit", "memswap_limit", "cpu_period", "cpu_quota", "pids_limit"),
            **keys("environment", "tmpfs"),
            "pull_policy": OneOf(("never",)),
            "entrypoint": OneOf(([],)),
            "logging": OneOf(({"driver": "none"},)),
            "healthcheck": OneOf(({"disable": True},)),
            "restart": OneOf(("no",)),
            "volumes": Each(_VOLUME),
        }
    },
}
"""The rendered keys (compose-spec). `privileged`, `devices`, `pid` and all others are refused."""


@dataclass(frozen=True)
class ComposeSandbox(Enclosure):
    """The container of the service. `names_stay_open`: the file leaves names open that do not exist yet."""

    names_stay_open: bool = False

    def why_looser(self, policy: ResolvedPolicy, question: Asked) -> str:
        """The reason for a looser answer: Compose creates no placeholders; the head of the file says so."""
        rules = policy.filesystem.tree.deciding(question.path) if question.path else ()
        if self.names_stay_open and rules and policy.facts.kind(rules[0].path) is None:
            return ABSENT_NAMES
        return super().why_looser(policy, question)


def read_compose(rendered: Rendered, _policy: ResolvedPolicy) -> tuple[ComposeSandbox, ...]:
    """The container that `docker compose run` makes of the service."""
    content = rendered.artifact(FILE).content
    document = parse_yaml(content, file=FILE)
    data: Any = document.data
    check_shape(document, _FILE, data)
    service = data["services"][SERVICE]
    options = list(_service_options(document, service))
    check_options(options, filters=True)
    for text, at in _service_list(document, "tmpfs"):
        check_tmpfs(text, at)
    mode, environment = service["network_mode"], list(_service_list(document, "environment"))
    filtered = is_filtered(service["security_opt"], "seccomp:./seccomp.json")
    return (
        ComposeSandbox(
            "image",
            tuple(_mounts(document, service)),
            network=_position(document, ("network_mode",), mode) if mode == "none" else None,
            environment={text.partition("=")[0]: at for text, at in environment if "=" in text},
            passing=Passing({text: at for text, at in environment if "=" not in text}),
            calls=filter_of(rendered, service.get("cap_add", ())) if filtered else calls.unfiltered(FILE),
            isolated=isolation_of(options, ArtifactPosition(FILE, SERVICE, *document.position(_SERVICE))),
            names_stay_open=ABSENT_NAMES.encode() in content.partition(b"\nname: ")[0],
        ),
    )


_LISTS = {"cap_drop": "--cap-drop", "cap_add": "--cap-add", "security_opt": "--security-opt"}
_WORDS = {
    "ipc": "--ipc",
    "cgroup": "--cgroupns",
    "userns_mode": "--userns",
    "mem_limit": "--memory",
    "memswap_limit": "--memory-swap",
}


_position = partial(position_in, below=_SERVICE)


def _service_options(document: Document, service: dict[str, Any]) -> Iterator[Option]:
    """The parts of the service that decide about rights, as the equivalent options of `run`."""
    for key, name in _LISTS.items():
        yield from ((name, text, position) for text, position in _service_list(document, key))
    for key, name in _WORDS.items():
        if key in service:
            yield name, str(service[key]), _position(document, (key,), str(service[key]))
    if service.get("read_only") is True:
        yield "--read-only", "", _position(document, ("read_only",), "true")


def _mounts(document: Document, service: dict[str, Any]) -> Iterator[PlacedMount]:
    found = [(tmpfs_of(text), at) for text, at in _service_list(document, "tmpfs")]
    for index, volume in enumerate(service["volumes"]):
        fields = {"type": volume["type"], "dst": _unescape_dollars(volume["target"])}
        fields |= {"src": _unescape_dollars(volume["source"])} if "source" in volume else {}
        fields |= {"readonly": ""} if volume.get("read_only") else {}
        mount = mount_of(fields, _position(document, ("volumes", index), fields["dst"]))
        access = "rw" if mount.writable else "ro"
        found.append(
            (mount, _position(document, ("volumes", index), f"{mount.kind} {mount.target}, {access}"))
        )
    words = _service_list(document, "security_opt")
    masks = [each for text, at in words for each in masks_of("--security-opt", text, at)]
    yield from in_order(found, masks, FILE)


def _service_list(document: Document, name: str) -> Iterator[tuple[str, ArtifactPosition]]:
    data: Any = document.data
    for index, text in enumerate(data["services"][SERVICE].get(name, ())):
        yield _unescape_dollars(text), _position(document, (name, index), _unescape_dollars(text))


def _unescape_dollars(text: str) -> str:
    """Text without variables as Compose reads it: `$$` becomes `$`."""
    return text.replace("$$", "$")
