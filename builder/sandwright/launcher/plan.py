"""The plan that `launch` reads, `launch.plan` beside it: its fields, and their bytes.

Words that each end with NUL: `sandwright-launch` and a version; for each field its name, the count of its
values and the values; `end`. What a plan says nothing of isn't in it. `source/fields.h` has the same table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from sandwright.errors import RenderError

NAME = "launch.plan"
HEAD = ("sandwright-launch", "1")

Words = tuple[str, ...]
Pairs = tuple[tuple[str, str], ...]
Document = TypeVar("Document")


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """What a launcher does. Each field of `fields.h`, in its order; what each means is said there."""

    method: str
    refused: str | None = None
    artifacts: Pairs = ()
    absent: Words = ()
    denied_names: Pairs = ()
    there_directories: Words = ()
    there_files: Words = ()
    writable: Words = ()
    uid: int | None = None
    passed: Words = ()
    never: Words = ()
    project: str | None = None
    placeholder_directories: Words = ()
    placeholder_files: Pairs = ()
    ignored: Words = ()
    time: int | None = None
    pids: int | None = None
    files: int | None = None
    proxy: bool = False
    expose: Words = ()
    localhost: Words = ()
    names: Words = ()
    name_ports: Words = ()
    resolver_place: str | None = None
    hosts_place: str | None = None
    authorities: Words = ()
    authority_stores: Words = ()
    authority_names: Words = ()
    supervised: bool = False
    own_sockets: bool = False
    host_sockets: Words = ()
    shims: bool = False
    shims_place: str | None = None
    shims_search: str | None = None
    shims_loopback: bool = False
    wall: bool = False
    wall_paths: Pairs = ()
    wall_own: Words = ()
    gvisor: bool = False
    rootless: bool = False
    runtime_flags: Words = ()
    image: str | None = None
    image_points: Words = ()
    image_private: Words = ()
    own_network: bool = False
    host_names: bool = False
    config_holes: Pairs = ()
    engine: str | None = None
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
    account: str | None = None
    account_place: str | None = None
    account_start: str | None = None
    account_settings: Words = ()
    account_network: bool = False
    settings: Words = ()
    start_directory: str | None = None
    temporary: str | None = None
    ports_closed: bool = False
    ports_connect: Words = ()
    ports_bind: Words = ()
    kernel: str | None = None
    accelerator: str | None = None
    memory: int | None = None
    cpus: int | None = None
    guest_hidden: Words = ()
    guest_readonly: Words = ()
    guest_name: str | None = None
    guest_links: Pairs = ()


_KINDS: Mapping[str, str] = {
    "str": "WORD",
    "str | None": "WORD",
    "Words": "WORDS",
    "Pairs": "PAIRS",
    "int | None": "NUMBER",
    "bool": "FLAG",
}


def fields_of(document: type) -> Mapping[str, str]:
    """The kind of each field, as fields.h names it."""
    return {each.name: _KINDS[str(each.type)] for each in dataclasses.fields(document)}


FIELDS: Mapping[str, str] = MappingProxyType(fields_of(LaunchPlan))
"""Those of a plan."""

MOST = 10**15 - 1
"""The greatest number."""


def plan_bytes(plan: LaunchPlan) -> bytes:
    """The plan as it is written. Raise RenderError for NUL in a word and a number out of range."""
    return document_bytes(plan, HEAD)


def document_bytes(document: Any, head: Words) -> bytes:  # noqa: ANN401 - a dataclass of such fields
    """A dataclass of such fields as it is written. Raise like `plan_bytes`."""
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in _words(document, head))


def _words(document: Any, head: Words) -> Iterator[str]:  # noqa: ANN401
    yield from head
    for name, kind in fields_of(type(document)).items():
        values = _values(name, kind, getattr(document, name))
        if any("\0" in value for value in values):
            raise RenderError(f"{name} holds a NUL, which no path and no argument can have")
        if values or (kind == "FLAG" and getattr(document, name)):
            yield from (name, str(len(values)), *values)
    yield "end"


def _values(name: str, kind: str, value: Any) -> Words:  # noqa: ANN401 - as the field's type says
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
    """Read what `plan_bytes` wrote. Raise RenderError for all else."""
    return parse_document(LaunchPlan, content, HEAD)


def parse_document(document: type[Document], content: bytes, head: Words) -> Document:
    """Read what `document_bytes` wrote. Raise RenderError for all else."""
    words = iter(content.decode("utf-8", "surrogateescape").split("\0")[2:])
    fields, found = fields_of(document), dict[str, Any]()
    try:
        while (name := next(words)) != "end":
            found[name] = _read(fields[name], [next(words) for _ in range(int(next(words)))])
        made = document(**found)
    except (LookupError, StopIteration, TypeError, ValueError):
        raise RenderError("it is no plan of a launcher") from None
    if document_bytes(made, head) != content:
        raise RenderError("it is no plan of a launcher as it is written here")
    return made


def _read(kind: str, values: list[str]) -> object:
    if kind in ("WORDS", "PAIRS"):
        return tuple(values) if kind == "WORDS" else tuple(zip(values[::2], values[1::2], strict=True))
    if kind == "FLAG":
        return True
    return int(values[0]) if kind == "NUMBER" else values[0]
