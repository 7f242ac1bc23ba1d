"""Reads an engine's arguments back, as its command line does, and the filter beside them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Enclosure
from sandwright.evaluate.explain.plans import ReadPlan, read_plan
from sandwright.evaluate.explain.variables import rows_of
from sandwright.evaluate.explain.verdict import ArtifactPosition
from sandwright.launcher.plan import NAME, LaunchPlan
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount
from sandwright.render.rendered import Rendered
from sandwright.render.shell import VARIABLES

Option = tuple[str, str, ArtifactPosition]
"""Its name, its value, and where it is."""


def read_engine(rendered: Rendered, _policy: ResolvedPolicy) -> Enclosure:
    """The container that `docker run` or `podman run` makes.

    With a proxy the launcher makes a network that leads nowhere, and puts the sandbox and the proxy on it.
    """
    read = _read(rendered)
    options = [_option(word, place) for word, place in read.placed("engine.options")]
    hidden = [
        ("--mount", f"type=bind,hidden,{fields}", place)
        for fields, place in read.placed("engine.hidden_files")
    ]
    hidden += [("--mount", f"type=tmpfs,ro,{fields}", place) for fields, place in read.placed("ignored")]
    held = [value for name, value, _ in options if name == "--cap-add"]
    caps = [each if each.startswith("CAP_") else f"CAP_{each}" for each in held]
    return Enclosure(
        "image",
        tuple(_mounts([*options, *hidden])),
        network=_named(options) or next((place for _, place in read.placed("sw_proxied")), None),
        environment={
            value.partition("=")[0]: place
            for name, value, place in options
            if name == "--env" and "=" in value
        },
        passing=read.passing(),
        calls=calls.of_json(rendered.artifact("seccomp.json").content, "seccomp.json", caps=caps),
        absent=read.absent(),
        localhost=read.ports("localhost"),
        expose=read.ports("expose"),
    )


def _read(rendered: Rendered) -> ReadPlan:
    """The plan, or the variables of a launcher in shell."""
    if any(each.name == VARIABLES for each in rendered.artifacts):
        rows = rows_of(rendered)
        fields = {name: f"engine.{name}" for name in ("options", "hidden_files")}
        words = {fields.get(name, name): found[0] for name, found in rows.items() if found}
        return ReadPlan(LaunchPlan(method="engine"), words)
    read = read_plan(rendered)
    proxied = {"sw_proxied": (("", ArtifactPosition(NAME, "proxy")),)} if read.plan.proxy else {}
    return replace(read, words={**read.words, **proxied})


def _named(options: Sequence[Option]) -> ArtifactPosition | None:
    """Where it is said that there is no network."""
    named = [(value, place) for name, value, place in options if name in ("--network", "--net")]
    return named[-1][1] if named and named[-1][0] == "none" else None


def _option(word: str, place: ArtifactPosition) -> Option:
    name, _, value = word.partition("=")
    return name, value, place


def _mounts(options: Sequence[Option]) -> Iterator[tuple[Mount, ArtifactPosition]]:
    """What the engine brings, then what is asked for, parents first, as engines mount it; masks come last."""
    brought = ArtifactPosition(options[0][2].artifact, "brought by the engine")
    yield Mount("/dev", "dev", writable=True), brought
    yield Mount("/proc", "proc", writable=True), brought
    yield Mount("/sys", "proc"), brought
    found = [(mount, place) for name, value, place in options for mount in _mount(name, value)]
    yield from sorted(found, key=lambda each: each[0].target.count("/") if each[0].target != "/" else 0)
    for name, value, place in options:
        if name == "--security-opt" and value.startswith("mask="):
            yield from ((Mount(path, "mask"), place) for path in value.removeprefix("mask=").split(":"))


def _mount(name: str, value: str) -> Iterator[Mount]:
    if name == "--tmpfs":
        target, _, options = value.partition(":")
        yield Mount(target, "tmpfs", writable="ro" not in options.split(","))
    elif name == "--mount":
        fields = dict(_field(each) for each in next(csv.reader([value])))
        target, source = fields["dst"], fields.get("src", "")
        writable = not {"readonly", "ro"} & fields.keys()
        if fields["type"] == "tmpfs":
            yield Mount(target, "tmpfs", writable)
        elif "hidden" in fields:  # what `launch` makes: a file without rights
            yield Mount(target, "mask", entry="file")
        else:
            yield Mount(target, "bind", writable, source=source)
    elif name == "--volume":
        source, target, options = value.split(":")
        yield Mount(target, "bind", options.startswith("rw"), source=source)


def _field(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value
