"""Reads an engine's arguments back, as its command line does, and the filter beside them."""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from sandwright.evaluate.explain import calls, launchers
from sandwright.evaluate.explain.enclosure import Enclosure, Passing
from sandwright.evaluate.explain.plans import read_plan
from sandwright.evaluate.explain.verdict import ArtifactPosition
from sandwright.launcher.plan import NAME
from sandwright.render.mounts import Mount
from sandwright.render.rendered import Rendered

FILE = "arguments"

Option = tuple[str, str, ArtifactPosition]
"""Its name, its value, and where it is."""


def read_engine(rendered: Rendered) -> Enclosure:
    """The container that `docker run` or `podman run` makes."""
    if any(each.name == FILE for each in rendered.artifacts):
        return _read_shell(rendered)
    read = read_plan(rendered)
    options = [_option(word, place) for word, place in read.placed("options")]
    hidden = [
        ("--mount", f"type=bind,hidden,{fields}", place) for fields, place in read.placed("hidden_files")
    ]
    network = _named(options)
    if network is None and read.plan.proxy:
        network = ArtifactPosition(NAME, "proxy")
    return _enclosure(rendered, [*options, *hidden], network, read.passing(), read.absent())


def _read_shell(rendered: Rendered) -> Enclosure:
    text = rendered.artifact(FILE).content.decode("utf-8", "surrogateescape")
    launch = rendered.artifact("launch").content.decode("utf-8", "surrogateescape")
    options = list(_options(text))
    network = _network(options, launch)
    return _enclosure(rendered, options, network, launchers.passing(launch), dict(launchers.absent(launch)))


def _enclosure(
    rendered: Rendered,
    options: Sequence[Option],
    network: ArtifactPosition | None,
    passing: Passing,
    absent: Mapping[str, ArtifactPosition],
) -> Enclosure:
    held = [value for name, value, _ in options if name == "--cap-add"]
    caps = [each if each.startswith("CAP_") else f"CAP_{each}" for each in held]
    return Enclosure(
        "image",
        tuple(_mounts(options)),
        network=network,
        environment={
            value.partition("=")[0]: place
            for name, value, place in options
            if name == "--env" and "=" in value
        },
        passing=passing,
        calls=calls.of_json(rendered.artifact("seccomp.json").content, "seccomp.json", caps=caps),
        absent=absent,
    )


def _named(options: Sequence[Option]) -> ArtifactPosition | None:
    """Where it is said that there is no network."""
    named = [(value, place) for name, value, place in options if name in ("--network", "--net")]
    return named[-1][1] if named and named[-1][0] == "none" else None


def _network(options: Sequence[Option], launch: str) -> ArtifactPosition | None:
    """Where it is said that no network leads out; None when one does, as the engine's default one.

    With a proxy the launcher makes a network that is `--internal`, and puts the sandbox and the proxy on it.
    """
    if any(name in ("--network", "--net") for name, _, _ in options):
        return _named(options)
    made = _INTERNAL.search(launch)
    joined = _JOINED.search(launch)
    if made is None or joined is None:
        return None
    return ArtifactPosition("launch", made[0].strip(), launch.count("\n", 0, made.start()) + 1, 1)


_INTERNAL = re.compile(r"^engine network create --internal .*$", re.MULTILINE)
_JOINED = re.compile(r'^set -- "--network=\$sw_run-inside" ', re.MULTILINE)


def _options(text: str) -> Iterator[Option]:
    """Each option with its value, and its line."""
    position = 0
    for word in shlex.split(text, comments=True)[2:]:
        quoted = shlex.quote(word)
        position = max(text.find(quoted, position), position)
        line = text.count("\n", 0, position) + 1
        column = position - text.rfind("\n", 0, position)
        yield _option(word, ArtifactPosition(FILE, word, line, column))


def _option(word: str, place: ArtifactPosition) -> Option:
    name, _, value = word.partition("=")
    return name, value, place


def _mounts(options: Sequence[Option]) -> Iterator[tuple[Mount, ArtifactPosition]]:
    """What the engine brings, then what is asked for, parents first, as engines mount it."""
    brought = ArtifactPosition(options[0][2].artifact, "brought by the engine")
    yield Mount("/dev", "dev", writable=True), brought
    yield Mount("/proc", "proc", writable=True), brought
    yield Mount("/sys", "proc"), brought
    found = [(mount, place) for name, value, place in options for mount in _mount(name, value)]
    yield from sorted(found, key=lambda each: each[0].target.count("/") if each[0].target != "/" else 0)


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
        elif {"hidden", "$sw_nothing"} & fields.keys():  # what `launch` makes: a file without rights
            yield Mount(target, "mask", entry="file")
        else:
            yield Mount(target, "bind", writable, source=source)
    elif name == "--volume":
        source, target, options = value.split(":")
        yield Mount(target, "bind", options.startswith("rw"), source=source)
    elif name == "--security-opt" and value.startswith("mask="):
        for path in value.removeprefix("mask=").split(":"):
            yield Mount(path, "mask")


def _field(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value
