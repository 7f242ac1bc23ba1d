"""The needs of a command by its record, measured by the current policy and the preset `default`.

A program inside chooses the requests in a record. So a path counts by its target on this host
after the run, never by its name, and only as far as both policies allow.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sandwright.policy.resolved import ResolvedPolicy
from sandwright.reading import read_start
from sandwright.render.proxyfacts import REFUSALS, TOOL_REFUSALS
from sandwright.session.access_log import CHANGES, Access, AccessLog, RecordedRequest

READS = frozenset({"read", "exec", "list"})
_MOST_LINKS = 40
_HEAD = 256


@dataclass(frozen=True)
class Bounds:
    """The limits of grants: the policy of the recorded run, and the preset `default`."""

    current: ResolvedPolicy
    default: ResolvedPolicy

    def readable(self, path: str) -> bool:
        """Whether both policies allow reading a canonical path."""
        return all(each.filesystem.tree.allows("read", path) for each in (self.current, self.default))

    def writable(self, path: str) -> bool:
        """Whether the current policy lets a canonical path of the host be written."""
        return self.current.filesystem.tree.changes_host(path)

    def denied(self, path: str) -> bool:
        """Whether one of the policies denies the path explicitly, and does not merely lack a grant."""
        rules = (each.filesystem.tree.deciding(path) for each in (self.default, self.current))
        return any(found and found[0].kind == "deny" for found in rules)

    def is_private(self, path: str) -> bool:
        """Whether the path is private to the sandbox, such as its temporary directory or its devices."""
        found = self.current.filesystem.tree.deciding(path)
        return path.startswith(("/proc/", "/dev/")) or (bool(found) and found[0].private)

    def opens_secret(self, directory: str) -> bool:
        """Whether the current policy leaves open below a directory a path that `default` denies."""
        rules = (each for each in self.default.filesystem.rules if each.kind == "deny")
        prefix = f"{directory.rstrip('/')}/"
        return any(
            (each.path == directory or each.path.startswith(prefix))
            and self.current.filesystem.tree.allows("read", each.path)
            for each in rules
        )


@dataclass
class Needs:
    """The accesses that a command needs and that may be granted, by canonical path.

    `requested` are those that may not, with the reason.

    `looks` were only looked at. `writes` are directories in which something was changed that the run found
    there, or made. `links` are the symbolic links on the way, each with the paths reached through it.
    `requested` maps a requested path and a kind of access to the reason.
    """

    reads: dict[str, set[str]] = field(default_factory=dict)
    links: dict[str, set[str]] = field(default_factory=dict)
    looks: set[str] = field(default_factory=set)
    writes: dict[str, set[str]] = field(default_factory=dict)
    requested: dict[tuple[str, str], str] = field(default_factory=dict)
    hosts: set[tuple[str, int]] = field(default_factory=set)
    requests: set[RecordedRequest] = field(default_factory=set)
    localhost: set[int] = field(default_factory=set)
    sockets: set[str] = field(default_factory=set)
    calls: set[int] = field(default_factory=set)


def measure_needs(records: Iterable[AccessLog], bounds: Bounds) -> Needs:
    """The needs of all recorded runs together."""
    found = Needs()
    for record in records:
        _add_paths(found, record, bounds)
        _add_network(found, record, bounds)
        found.calls |= record.calls
    return found


def _add_paths(found: Needs, record: AccessLog, bounds: Bounds) -> None:
    made = {each.real for each in record.accesses if "create" in each.kinds and each.found == "absent"}
    for access in record.accesses:
        if access.kinds & CHANGES:
            _add_write(found, access, made, bounds)
        if access.kinds & (READS | {"look"}):
            _add_read(found, access, made, bounds)


def _add_read(found: Needs, access: Access, made: set[str], bounds: Bounds) -> None:
    kinds = access.kinds & READS
    path = _resolved_path(access)
    if path is None or bounds.is_private(path) or path in made:
        return
    if not os.path.lexists(path) and not bounds.denied(path):
        return  # it is nowhere, so nothing is missing
    if bounds.denied(path) or not bounds.readable(path):
        if kinds:
            found.requested[(path, "read")] = "denied" if bounds.denied(path) else "not granted"
        return
    if not kinds:
        found.looks.add(path)
        return
    for named, real in ((access.path, path), *(started_by(path) if "exec" in kinds else ())):
        if not bounds.readable(real) or bounds.is_private(real):
            continue
        found.reads.setdefault(real, set()).update(kinds)
        for link in links_to(named):
            if bounds.readable(link) and not bounds.is_private(link):
                found.links.setdefault(link, set()).add(real)


def _add_write(found: Needs, access: Access, made: set[str], bounds: Bounds) -> None:
    """In the directory of a changed file, which is replaced, as editors do, or created."""
    path = _resolved_path(access)
    if path is None or bounds.is_private(path):
        return
    if not bounds.writable(path):
        why = "denied" if bounds.denied(path) else "not writable"
        found.requested[(path, "write")] = why
        return
    above = os.path.dirname(path)
    while above in made and above != "/":
        above = os.path.dirname(above)
    if bounds.writable(above) and os.path.realpath(above) == above:
        found.writes.setdefault(above, set()).update(access.kinds & CHANGES)
    else:
        found.writes.setdefault(path, set()).update(access.kinds & CHANGES)


def _add_network(found: Needs, record: AccessLog, bounds: Bounds) -> None:
    network = bounds.current.network
    for requested in record.hosts:
        if requested.refused:
            found.requested[(f"{requested.host}:{requested.port}", "host")] = (
                f"refused by the proxy: {requested.refused}"
            )
        else:
            found.hosts.add((requested.host, requested.port))
    for request in record.requests:
        if request.refused:
            words = f"{request.method} https://{request.host}{request.path} {request.tool}".strip()
            why = {**REFUSALS, **TOOL_REFUSALS}.get(request.refused, request.refused)
            found.requested[(words, "request")] = why
        else:
            found.requests.add(request)
    for each in record.contacts:
        if each.action == "listen":
            continue
        if each.type == "unix":
            if each.address in network.unix_sockets:
                found.sockets.add(each.address)
        elif each.address.startswith("127.") or each.address == "::1":
            found.localhost |= {each.port} & set(network.localhost)
        elif network.mode != "host" and each.port and each.address not in ("0.0.0.0", "::"):  # noqa: S104 - what a program named
            found.requested[(f"{each.type} {each.address} port {each.port}", "address")] = (
                "no way but the proxy"
            )


def _resolved_path(access: Access) -> str | None:
    """Resolve a path on this host as it is now; a link at its end is followed if the call followed it.

    None where it leads nowhere: a directory on the way is not there.
    """
    head, name = os.path.split(access.real.rstrip("/"))
    if name in ("", ".", ".."):
        head, name = access.real, ""
    try:
        above = os.path.realpath(head, strict=True)
    except OSError:
        return None
    resolved = os.path.join(above, name) if name else above
    changes_it = access.found == "link" or access.kinds <= CHANGES
    return resolved if changes_it else os.path.realpath(resolved)


def links_to(path: str) -> Iterator[str]:
    """The links on the way from a path as it is named to the file."""
    parts = [each for each in path.split("/") if each not in ("", ".")]
    at, followed = "/", 0
    while parts and followed < _MOST_LINKS:
        part = parts.pop(0)
        if part == "..":
            at = os.path.dirname(at)
            continue
        here = os.path.join(at, part)
        try:
            is_link = stat.S_ISLNK(os.lstat(here).st_mode)
            target = os.readlink(here) if is_link else ""
        except OSError:
            return
        if not is_link:
            at = here
            continue
        yield here
        followed += 1
        at = "/" if target.startswith("/") else at
        parts = [each for each in target.split("/") if each not in ("", ".")] + parts


def started_by(path: str, depth: int = 4) -> Iterator[tuple[str, str]]:
    """The files that the kernel opens to start a program: the interpreter of a script, and that one's.

    Each with its name and its canonical path. The loader of an ELF file is granted anyway.
    """
    try:
        head = read_start(path, size=_HEAD)
    except OSError:
        return
    words = head[2:].split(b"\n")[0].split() if head.startswith(b"#!") else []
    if not words or not words[0].startswith(b"/") or depth == 0:
        return
    named = os.fsdecode(words[0])
    real = os.path.realpath(named)
    yield named, real
    yield from started_by(real, depth - 1)
