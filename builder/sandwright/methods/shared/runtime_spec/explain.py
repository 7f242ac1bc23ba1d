"""Reads the configuration of an OCI runtime back: mounts, namespaces, environment, filter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sandwright.documents.document import Document, field_name
from sandwright.documents.jsontext import parse_json
from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Enclosure
from sandwright.evaluate.explain.plans import read_plan
from sandwright.evaluate.explain.verdict import ArtifactPosition
from sandwright.methods.shared.runtime_spec.render import IGNORED, NOTHING
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount, MountKind
from sandwright.render.rendered import Rendered

_OWN = frozenset(("proc", "devpts", "mqueue", "sysfs", "cgroup", "cgroup2"))


def read_runc(rendered: Rendered, _policy: ResolvedPolicy) -> Enclosure:
    """The container that runc or crun makes of `config.json`."""
    return _read(rendered, gvisor=False)


def read_runsc(rendered: Rendered, _policy: ResolvedPolicy) -> Enclosure:
    """The container that runsc makes of `config.json`."""
    return _read(rendered, gvisor=True)


def _read(rendered: Rendered, *, gvisor: bool) -> Enclosure:
    content = rendered.artifact("config.json").content
    document = parse_json(content, file="config.json")
    config: Any = document.data
    launch = read_plan(rendered)
    kinds = [each["type"] for each in config["linux"]["namespaces"]]
    network = ("linux", "namespaces", kinds.index("network")) if "network" in kinds else None
    environment = {
        text.partition("=")[0]: _place(document, ("process", "env", index), text)
        for index, text in enumerate(config["process"]["env"])
    }
    return Enclosure(
        "image",
        tuple(_mounts(document, config)),
        network=_place(document, network, "network") if network else None,
        environment=environment,
        passing=launch.passing(),
        calls=calls.of_document(document, caps=config["process"]["capabilities"]["bounding"]),
        absent=launch.absent(),
        localhost=launch.ports("localhost"),
        expose=launch.ports("expose"),
        sockets=not gvisor or "--host-uds=open" in launch.plan.runtime.flags,
    )


def _mounts(document: Document, config: Any) -> Iterator[tuple[Mount, ArtifactPosition]]:  # noqa: ANN401 - JSON
    """In order: the runtime masks and closes its own paths after all mounts are made."""
    for index, each in enumerate(config["mounts"]):
        mount = _mount(each)
        text = f"{each['type']} {each['source']} on {mount.target}, {'rw' if mount.writable else 'ro'}"
        yield mount, _place(document, ("mounts", index), text)
    for key, kind in (("maskedPaths", "mask"), ("readonlyPaths", "proc")):
        for index, path in enumerate(config["linux"].get(key, ())):
            found: MountKind = "mask" if kind == "mask" else "proc"
            yield Mount(path, found), _place(document, ("linux", key, index), path)


def _mount(each: dict[str, Any]) -> Mount:
    target, kind, options = each["destination"], each["type"], each["options"]
    writable = "ro" not in options
    if kind == "bind" or "rbind" in options or "bind" in options:
        if each["source"] in ("/dev/null", NOTHING):
            return Mount(target, "mask", entry="file")
        if each["source"] == IGNORED:
            return Mount(target, "tmpfs")
        return Mount(target, "bind", writable, source=each["source"])
    if kind in _OWN:
        return Mount(target, "proc", writable)
    return Mount(target, "dev" if target == "/dev" else "tmpfs", writable)


def _place(document: Document, path: tuple[str | int, ...], text: str) -> ArtifactPosition:
    line, column = document.position(path)
    return ArtifactPosition("config.json", f"{field_name(path)}: {text}", line, column)
