"""Reads an engine's arguments back, as its command line does, and the filter beside them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sandwright.evaluate.explain import calls
from sandwright.evaluate.explain.enclosure import Calls, Enclosure, Passing
from sandwright.evaluate.explain.isolation import refuse_unknown
from sandwright.evaluate.explain.plans import ReadPlan, read_plan
from sandwright.evaluate.explain.squid import Squid, parse_squid
from sandwright.evaluate.explain.variables import rows_of
from sandwright.evaluate.explain.verdict import ArtifactPosition
from sandwright.launcher.plan import NAME, LaunchPlan
from sandwright.methods.shared.engine.options import Option, check_options, isolation_of
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.render.mounts import Mount
from sandwright.render.rendered import Rendered
from sandwright.render.shell import VARIABLES

PlacedMount = tuple[Mount, ArtifactPosition]
_NETWORKS = ("--network", "--net")


def read_engine(rendered: Rendered, _policy: ResolvedPolicy) -> Enclosure:
    """The container that `docker run` or `podman run` makes for the command."""
    for name, value, at in engine_options(read_launch(rendered)):
        if name == "--tmpfs":
            check_tmpfs(value, at)
    return read_container(rendered)


def read_container(rendered: Rendered) -> Enclosure:
    """The container that `docker run` or `podman run` makes.

    With a proxy the launcher makes a network that leads nowhere, and puts the sandbox and the proxy on it.
    """
    read = read_launch(rendered)
    options = engine_options(read)
    hidden = [
        ("--mount", f"type=bind,hidden,{fields}", at) for fields, at in read.words_of("engine.hidden_files")
    ]
    hidden += [("--mount", f"type=tmpfs,ro,{fields}", at) for fields, at in read.words_of("ignored")]
    return Enclosure(
        "image",
        tuple(mounts_of([*options, *hidden])),
        network=_own_network(read, options),
        environment={
            value.partition("=")[0]: at for name, value, at in options if name == "--env" and "=" in value
        },
        passing=_client_variables(read, options),
        calls=filter_of(rendered, [value for name, value, _ in options if name == "--cap-add"]),
        isolated=isolation_of(options, ArtifactPosition(options[0][2].artifact, "the options of `run`")),
        absent=read.absent(),
        localhost=read.ports("localhost"),
        expose=read.ports("expose"),
        proxy=proxy_of(rendered),
    )


def proxy_of(rendered: Rendered) -> Callable[[], Squid] | None:
    """The proxy that the launcher starts beside the container; None where it starts none."""
    squid_artifact = next((each for each in rendered.artifacts if each.name.endswith("/squid.conf")), None)
    return (
        None
        if squid_artifact is None
        else lambda: parse_squid(squid_artifact.content.decode(), squid_artifact.name)
    )


def engine_options(read: ReadPlan) -> list[Option]:
    """The options that the launcher gives the engine. Raise DocumentError for one that is not rendered."""
    options = [option(word, at) for word, at in read.words_of("engine.options")]
    check_options(options)
    return options


def read_launch(rendered: Rendered) -> ReadPlan:
    """The plan, or the variables of a launcher in shell."""
    if any(each.name == VARIABLES for each in rendered.artifacts):
        rows = rows_of(rendered)
        fields = {name: f"engine.{name}" for name in ("options", "hidden_files")}
        fields["unset_names"] = "engine.unset"
        words = {fields.get(name, name): found[0] for name, found in rows.items() if found}
        return ReadPlan(LaunchPlan(method="engine"), words)
    read = read_plan(rendered)
    proxied = {"sw_proxied": (("", ArtifactPosition(NAME, "proxy")),)} if read.plan.proxy else {}
    return replace(read, words={**read.words, **proxied})


def filter_of(rendered: Rendered, capabilities: Sequence[str]) -> Calls:
    """The answers of the filter beside the options, where a container has some capabilities."""
    caps = [each if each.startswith("CAP_") else f"CAP_{each}" for each in capabilities]
    return calls.of_json(rendered.artifact("seccomp.json").content, "seccomp.json", caps=caps)


def _own_network(read: ReadPlan, options: Sequence[Option]) -> ArtifactPosition | None:
    """The position of the setting for a closed network: with a proxy the launcher chooses it."""
    if any(name in _NETWORKS for name, _, _ in options):
        return network_of(options)
    return next((at for _, at in read.words_of("sw_proxied")), None)


def _client_variables(read: ReadPlan, options: Sequence[Option]) -> Passing:
    """The client passes a variable without a value on, unless the launcher has taken it away."""
    gone = {word for word, _ in read.words_of("engine.unset")}
    bare = {value: at for name, value, at in options if name == "--env" and "=" not in value}
    passing = read.passing()
    passed = {name: at for name, at in bare.items() if name not in gone}
    return replace(passing, passed={**passing.passed, **passed})


def network_of(options: Sequence[Option]) -> ArtifactPosition | None:
    """The position of the setting that turns the network off."""
    named = [(value, at) for name, value, at in options if name in _NETWORKS]
    return named[-1][1] if named and named[-1][0] == "none" else None


def option(word: str, at: ArtifactPosition) -> Option:
    """An option of the command line, taken apart."""
    name, _, value = word.partition("=")
    return name, value, at


def mounts_of(options: Sequence[Option]) -> Iterator[PlacedMount]:
    """The engine's mounts, the requested ones, and the masked paths."""
    found = [(mount, at) for name, value, at in options for mount in _mount(name, value, at)]
    masks = [each for name, value, at in options for each in masks_of(name, value, at)]
    yield from in_order(found, masks, options[0][2].artifact)


def in_order(
    found: Iterable[PlacedMount], masks: Iterable[PlacedMount], artifact: str
) -> Iterator[PlacedMount]:
    """The engine's mounts, then the requested ones, parents first, as engines mount them; masks come last."""
    brought = ArtifactPosition(artifact, "brought by the engine")
    yield Mount("/dev", "dev", writable=True), brought
    yield Mount("/proc", "proc", writable=True), brought
    yield Mount("/sys", "proc"), brought
    yield from sorted(found, key=lambda each: each[0].target.count("/") if each[0].target != "/" else 0)
    yield from masks


def masks_of(name: str, value: str, at: ArtifactPosition) -> Iterator[PlacedMount]:
    """The paths that `--security-opt=mask=…` hides."""
    if name == "--security-opt" and value.startswith("mask="):
        yield from ((Mount(path, "mask"), at) for path in value.removeprefix("mask=").split(":"))


def _mount(name: str, value: str, position: ArtifactPosition) -> Iterator[Mount]:
    if name == "--tmpfs":
        yield tmpfs_of(value)
    elif name == "--mount":
        yield mount_of(dict(_split_field(each) for each in next(csv.reader([value]))), position)
    elif name == "--volume":
        yield _volume_mount(value, position)


def _volume_mount(value: str, position: ArtifactPosition) -> Mount:
    """The mount of `SOURCE:TARGET[:OPTIONS]`, which can be written unless it says `ro`."""
    source, target, *options = value.split(":")[:3] if value.count(":") in (1, 2) else ("", "")
    words = ",".join(options).split(",") if options else []
    if not source.startswith("/") or not target.startswith("/") or not _VOLUME_OPTIONS.issuperset(words):
        raise refuse_unknown(position)
    return Mount(target, "bind", "ro" not in words, source=source)


_VOLUME_OPTIONS = frozenset(("ro", "rw", "rprivate"))


def tmpfs_of(value: str) -> Mount:
    """The mount of `PATH:OPTIONS`."""
    target, _, options = value.partition(":")
    return Mount(target, "tmpfs", writable="ro" not in options.split(","))


def check_tmpfs(value: str, position: ArtifactPosition) -> None:
    """Raise DocumentError for a mount with devices, or set-user-ID programs."""
    if not {"nosuid", "nodev"}.issubset(value.partition(":")[2].split(",")):
        raise refuse_unknown(position)


_FIELDS = frozenset(
    (
        *("type", "src", "source", "dst", "target", "readonly", "ro", "bind-propagation", "tmpfs-mode"),
        *("notmpcopyup", "hidden"),
    )
)


def mount_of(fields: Mapping[str, str], position: ArtifactPosition) -> Mount:
    """The mount of an option's fields. Raise DocumentError for a field or a value that is not rendered."""
    private = fields.get("bind-propagation", "rprivate") == "rprivate"
    if not (_FIELDS.issuperset(fields) and fields["type"] in ("bind", "tmpfs") and private):
        raise refuse_unknown(position)
    target = fields["dst"] if "dst" in fields else fields["target"]
    source = fields.get("src") or fields.get("source", "")
    writable = not {"readonly", "ro"} & fields.keys()
    if fields["type"] == "tmpfs":
        return Mount(target, "tmpfs", writable)
    if "hidden" in fields or source == "/dev/null":  # `hidden`: a file without rights, which `launch` makes
        return Mount(target, "mask", entry="file")
    return Mount(target, "bind", writable, source=source)


def _split_field(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value
