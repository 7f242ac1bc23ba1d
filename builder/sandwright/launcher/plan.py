"""The plan that `launch` reads, `launch.plan` beside it: its fields, and their bytes.

Words that each end with NUL: `sandwright-launch` and a version; for each field its name, the count of its
values and the values; `end`. Fields without a value are omitted. `source/fields.h` has the same table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar

from sandwright.errors import RenderError

NAME = "launch.plan"
HEAD = ("sandwright-launch", "2")

Words = tuple[str, ...]
Pairs = tuple[tuple[str, str], ...]
Document = TypeVar("Document")


@dataclass(frozen=True, kw_only=True)
class NamePlan:
    """The section `names`: host names that lead through the proxy."""

    patterns: Words = ()
    ports: Words = ()
    resolver_place: str | None = None
    hosts_place: str | None = None


@dataclass(frozen=True, kw_only=True)
class AuthorityPlan:
    """The section `authorities`: the host's CA certificates, for an image's root."""

    bundles: Words = ()
    stores: Words = ()
    variables: Words = ()


@dataclass(frozen=True, kw_only=True)
class SocketPlan:
    """The section `sockets`: Unix sockets."""

    supervised: bool = False
    own: bool = False
    host: Words = ()


@dataclass(frozen=True, kw_only=True)
class ShimPlan:
    """The section `shims`: the bridge."""

    enabled: bool = False
    place: str | None = None
    search: str | None = None
    loopback: bool = False


@dataclass(frozen=True, kw_only=True)
class BackstopPlan:
    """The section `backstop`: Landlock in addition to the mounts."""

    enabled: bool = False
    paths: Pairs = ()
    own: Words = ()


@dataclass(frozen=True, kw_only=True)
class ImagePlan:
    """The section `image`: an unpacked image."""

    root: str | None = None
    points: Words = ()
    private_names: Words = ()
    host_names: bool = False


@dataclass(frozen=True, kw_only=True)
class RuntimePlan:
    """The section `runtime`: runc, crun and runsc."""

    gvisor: bool = False
    rootless: bool = False
    flags: Words = ()
    own_network: bool = False
    config_holes: Pairs = ()


@dataclass(frozen=True, kw_only=True)
class EnginePlan:
    """The section `engine`: Docker and Podman."""

    client: str | None = None
    options: Words = ()
    started: Words = ()
    image_missing: str | None = None
    files_inside: Pairs = ()
    hidden_files: Words = ()
    binds: Words = ()
    owner: int | None = None
    controllers: Words = ()
    home: str | None = None
    callers: Words = ()
    unset: Words = ()
    proxy_image: str | None = None
    proxy_missing: str | None = None
    proxy_network: str | None = None
    proxy_clients: str | None = None
    proxy_private: bool = False
    watched: bool = False


@dataclass(frozen=True, kw_only=True)
class UserPlan:
    """The section `user`: the project's account."""

    account: str | None = None
    root: str | None = None
    start_directory: str | None = None
    settings: Words = ()
    network: bool = False


@dataclass(frozen=True, kw_only=True)
class LandlockPlan:
    """The section `landlock`: Landlock as the method."""

    settings: Words = ()
    start_directory: str | None = None
    temporary: str | None = None
    ports_closed: bool = False
    ports_connect: Words = ()
    ports_bind: Words = ()


@dataclass(frozen=True, kw_only=True)
class MachinePlan:
    """The section `vm`: the command's guest kernel."""

    kernel: str | None = None
    accelerator: str | None = None
    memory: int | None = None
    cpus: int | None = None
    hidden: Words = ()
    readonly: Words = ()
    hostname: str | None = None
    links: Pairs = ()


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """The rendered input of a launcher. `fields.h` has the same fields in this order, and describes them."""

    method: str
    refused: str | None = None
    artifacts: Pairs = ()
    absent: Words = ()
    denied_names: Pairs = ()
    there_directories: Words = ()
    there_files: Words = ()
    mount_ways: Words = ()
    writable: Words = ()
    review: bool = False
    mcp: bool = False
    uid: int | None = None
    passed: Words = ()
    never: Words = ()
    project: str | None = None
    placeholder_directories: Words = ()
    placeholder_files: Pairs = ()
    uncreatable: Pairs = ()
    ignored: Words = ()
    repositories: Words = ()
    time: int | None = None
    memory: int | None = None
    cpus: int | None = None
    pids: int | None = None
    files: int | None = None
    proxy: bool = False
    expose: Words = ()
    localhost: Words = ()
    names: NamePlan = NamePlan()
    authorities: AuthorityPlan = AuthorityPlan()
    sockets: SocketPlan = SocketPlan()
    shims: ShimPlan = ShimPlan()
    backstop: BackstopPlan = BackstopPlan()
    image: ImagePlan = ImagePlan()
    runtime: RuntimePlan = RuntimePlan()
    engine: EnginePlan = EnginePlan()
    user: UserPlan = UserPlan()
    landlock: LandlockPlan = LandlockPlan()
    vm: MachinePlan = MachinePlan()


_KINDS: Mapping[str, str] = {
    "str": "WORD",
    "str | None": "WORD",
    "Words": "WORDS",
    "Pairs": "PAIRS",
    "int | None": "NUMBER",
    "bool": "FLAG",
}


def _sections(document: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    """Its sections, dataclasses of further fields, as they are by default."""
    fields = dataclasses.fields(document)
    return {each.name: each.default for each in fields if dataclasses.is_dataclass(each.default)}


def _kinds(of: Any, prefix: str = "") -> Iterator[tuple[str, str]]:  # noqa: ANN401 - a dataclass
    sections = {} if prefix else _sections(of)
    for each in dataclasses.fields(of):
        if each.name in sections:
            yield from _kinds(sections[each.name], f"{each.name}.")
        else:
            yield f"{prefix}{each.name}", _KINDS[str(each.type)]


def fields_of(document: type) -> Mapping[str, str]:
    """The kind of each field, as fields.h names it; `section.field` in a section."""
    return dict(_kinds(document))


FIELDS: Mapping[str, str] = MappingProxyType(fields_of(LaunchPlan))
"""The fields of a launch plan, with their types."""

MOST = 10**15 - 1
"""The greatest number."""


def plan_bytes(plan: LaunchPlan) -> bytes:
    """The plan as it is written. Raise RenderError for NUL in a word and a number out of range."""
    return document_bytes(plan, HEAD)


def document_bytes(document: Any, head: Words) -> bytes:  # noqa: ANN401 - a dataclass of such fields
    """A dataclass of such fields as it is written. Raise like `plan_bytes`."""
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in _plan_words(document, head))


def _plan_words(document: Any, head: Words) -> Iterator[str]:  # noqa: ANN401
    yield from head
    for name, kind in fields_of(type(document)).items():
        found = attrgetter(name)(document)
        values = _encode_value(name, kind, found)
        if "\0" in "".join(values):
            raise RenderError(f"{name} holds a NUL, which no path and no argument can have")
        if values or (kind == "FLAG" and found):
            yield from (name, str(len(values)), *values)
    yield "end"


def _encode_value(name: str, kind: str, value: Any) -> Words:  # noqa: ANN401 - as the field's type says
    if kind == "NUMBER" and value is not None:
        if not 0 <= value <= MOST:
            raise RenderError(f"{name} is {value}, and must be from 0 to {MOST}")
        return (str(int(value)),)
    if kind == "PAIRS":
        return tuple(word for pair in value for word in pair)
    if kind == "WORD" and value is not None:
        return (value,)
    return tuple(value) if kind == "WORDS" else ()


def parse_plan(content: bytes) -> LaunchPlan:
    """Decode the output of `plan_bytes`. Raise RenderError for anything else."""
    return parse_document(LaunchPlan, content, HEAD)


def parse_document(document: type[Document], content: bytes, head: Words) -> Document:
    """Decode the output of `document_bytes`. Raise RenderError for anything else."""
    words = iter(content.decode("utf-8", "surrogateescape").split("\0")[2:])
    fields, defaults = fields_of(document), _sections(document)
    found: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {}
    try:
        while (name := next(words)) != "end":
            section, _, field = name.rpartition(".")
            into = sections.setdefault(section, {}) if section else found
            into[field] = _decode_value(fields[name], [next(words) for _ in range(int(next(words)))])
        inner = {name: dataclasses.replace(defaults[name], **values) for name, values in sections.items()}
        made = document(**found, **inner)
    except (LookupError, StopIteration, TypeError, ValueError):
        raise RenderError("it is no plan of a launcher") from None
    if document_bytes(made, head) != content:
        raise RenderError("it is no plan of a launcher as it is written here")
    return made


def _decode_value(kind: str, values: list[str]) -> object:
    if kind in ("WORDS", "PAIRS"):
        return tuple(values) if kind == "WORDS" else tuple(zip(values[::2], values[1::2], strict=True))
    if kind == "FLAG":
        return True
    return int(values[0]) if kind == "NUMBER" else values[0]
