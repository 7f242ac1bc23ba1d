"""Puts a Seatbelt profile together: the base, the capability fragments, and the policy's rules for paths."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sandwright.errors import RenderError
from sandwright.methods.seatbelt.path_rules import Filter, Places, SeatbeltStatement, native, places
from sandwright.methods.seatbelt.quoting import quote_sbpl
from sandwright.methods.seatbelt.spellings import IGNORED
from sandwright.policy.names import FRAGMENTS
from sandwright.policy.paths import ancestors
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.values import mach_service
from sandwright.render.artifact import Artifact
from sandwright.render.placeholders import git_directories
from sandwright.render.quoting import Quoted
from sandwright.render.templates import add_filter, render_template

T = TypeVar("T")

CLOSED: Mapping[str, str] = {
    "darwin-notification-post": "signals to other programs",
    "dynamic-code-generation": "machine code made at run time; `node` and `java` allow it",
    "file-clone": "copies; allowed below for what can be read",
    "file-link": "second names; allowed below for what can be written",
    "file-lock": "locks; allowed below for what can be read",
    "file-map-executable": "libraries; allowed below for what can be read",
    "file-test-existence": "whether a path exists; allowed below for what can be read",
    "fs-quota*": "quotas of users and groups",
    "fs-snapshot-mount": "snapshots show files as they were, under other paths",
    "iokit-get-properties": "serial numbers of the hardware",
    "iokit-open-service": "drivers",
    "mach-cross-domain-lookup": "services of other logins",
    "mach-derive-port": "rights to other processes",
    "mach-kernel-endpoint": "ports of the kernel",
    "nvram*": "firmware variables, which can be changed",
    "process-codesigning": "how others are signed, and changing it",
    "process-exec-update-label": "another label for a process",
    "process-info*": "other processes: their names, files and arguments",
    "process-info-codesignature": "how other processes are signed",
    "system-memorystatus-control": "which processes are ended when memory is short",
    "system-necp-client-action": "network policies",
    "system-privilege": "rights of root",
}
"""The operations that `(deny default)` leaves allowed and the base denies, with their effects."""

KEPT: Mapping[str, str] = {
    "mach-bootstrap": "how any service is looked up; which ones, mach-lookup says",
    "mach-task-special-port*": "its own bootstrap port",
    "necp-client-open": "connect(2) asks it for a path; where to, network-outbound says",
    "socket-ioctl": "FIONBIO: sockets that don't wait",
    "socket-option-get": "getsockopt(2) on sockets it has",
    "socket-option-set": "setsockopt(2) on sockets it has",
    "syscall-mach": "the kernel's entry points",
    "syscall-mig": "the kernel's entry points",
    "syscall-unix": "the kernel's entry points",
    "system-fcntl": "fcntl(2) on files it has",
    "system-mac-syscall": "dyld and libsandbox ask the kernel what the sandbox allows",
    "xpc-message-send": "messages to services that mach-lookup gave",
}
"""The operations that stay allowed. Others report that programs die without most of them; for
`mach-task-special-port*`, `socket-ioctl` and `xpc-message-send` it is inferred."""

_MAX_FILTERS = 100
_OPERATION = re.compile(r"[a-z-]+\*?")


@dataclass(frozen=True)
class Fragment:
    """A capability of the profile. `text` is SBPL."""

    name: str
    why: str
    text: Quoted


def seatbelt_profile(policy: ResolvedPolicy) -> Artifact:
    """The profile. Raise RenderError for a path that SBPL can't hold, and for a fragment there is not."""
    found = places(policy)
    network = policy.network
    text = render_template(
        "seatbelt",
        "base.sb.j2",
        tag=tag(policy),
        closed=list(CLOSED.items()),
        kept=list(KEPT.items()),
        fragments=list(_fragments(policy)),
        pty="pty" in policy.macos,
        names=found.names,
        folders=found.folders,
        statements=found.statements,
        pinned=_batch(found.pinned),
        ignored=IGNORED,
        kept_names=_batch(found.kept),
        repositories=_repositories(policy),
        seen=_batch(found.seen),
        network=network.mode,
        localhost=network.localhost,
        expose=network.expose,
        sockets=[native(path, policy) for path in network.unix_sockets],
        own=_private_tmp(policy, found) if network.own_sockets else "",
        shims=policy.credentials.needs_bridge,
    )
    return Artifact("profile.sb", text.encode(), "the profile, for sandbox-exec -f")


def tag(policy: ResolvedPolicy) -> str:
    """The tag with which macOS logs denials of this project's sandbox."""
    project = hashlib.sha256(policy.facts.project.encode("utf-8", "surrogateescape"))
    return f"sandwright-{project.hexdigest()[:12]}"


def temporary(policy: ResolvedPolicy) -> str:
    """The value of TMPDIR for programs."""
    return native(policy.canonical(policy.facts.tmp), policy)


def _repositories(policy: ResolvedPolicy) -> list[str]:
    """The writable Git directories, without those in others."""
    found = [path for path in git_directories(policy) if policy.filesystem.tree.changes_host(path)]
    return [native(path, policy) for path in found if not any(each in found for each in ancestors(path))]


def _private_tmp(policy: ResolvedPolicy, found: Places) -> str | None:
    """The temporary directory, when it is the sandbox's own."""
    path = temporary(policy)
    if policy.filesystem.tmp != "private" or policy.facts.os != "darwin":
        return None
    allowed_filters = {
        each.text for statement in found.statements if statement.allow for each in statement.filters
    }
    return path if path in allowed_filters else None


def _fragments(policy: ResolvedPolicy) -> Iterator[Fragment]:
    """The fragments that the policy lists, and name look-ups where all of the network is allowed."""
    services = [each for each in policy.macos if ":" in each]
    names = {*policy.macos, *(["dns"] if policy.network.mode == "host" else [])} - {*services}
    home = native(policy.canonical(policy.facts.home), policy)
    paths = {
        "library": f"{home}/Library/Keychains",
        "global": f"{home}/Library/Preferences/.GlobalPreferences.plist",
        "encoding": f"{home}/.CFUserTextEncoding",
        "developer": f"{home}/Library/Developer/Xcode",
        "swiftpm": f"{home}/Library/Caches/org.swift.swiftpm",
    }
    for name in sorted(names):
        if name not in FRAGMENTS:
            raise RenderError(f"there is no capability fragment {name!r}")
        text = render_template("seatbelt", f"fragments/{name}.sb.j2", **paths)
        yield Fragment(name, FRAGMENTS[name], Quoted(text.rstrip("\n")))
    yield from map(_mach, sorted(services))


def _mach(text: str) -> Fragment:
    """A Mach service: one that is looked up, or those that programs inside offer, and find."""
    service = mach_service(text)
    if service is None:
        raise RenderError(f"there is no capability fragment {text!r}")
    operations = "mach-register mach-lookup" if service.register else "mach-lookup"
    kind, name = (
        ("global-name-prefix", f"{service.name}.") if service.prefix else ("global-name", service.name)
    )
    why = "services of its own, for anybody who looks them up" if service.register else "one Mach service"
    return Fragment(text, why, Quoted(f"(allow {operations} ({kind} {quote_sbpl(name)}))"))


def _batch(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[start : start + _MAX_FILTERS] for start in range(0, len(items), _MAX_FILTERS)]


def _path_filter(value: object) -> Quoted:
    """A filter for paths, as SBPL."""
    if not isinstance(value, Filter):
        raise RenderError(f"{value!r} is no filter")
    text = quote_sbpl(value.text)
    match value.kind:
        case "subpath" | "literal" | "regex":
            return Quoted(f"({value.kind} {text})")
        case "names":
            return Quoted(f'(regex (string-append "^(" {text} ")/(" protected-names-{value.names} ")(/|$)"))')
        case "folders":
            return Quoted(f'(regex (string-append "^(" {text} ")/(" protected-folders-{value.names} ")$"))')
        case _:
            raise RenderError(f"there is no filter {value.kind!r}")


def _verb(value: object) -> Quoted:
    if not isinstance(value, SeatbeltStatement):
        raise RenderError(f"{value!r} is no statement")
    return Quoted("allow" if value.allow else "deny")


def _operation(value: object) -> Quoted:
    if not isinstance(value, str) or not _OPERATION.fullmatch(value):
        raise RenderError(f"{value!r} is no operation")
    return Quoted(value)


add_filter("path_filter", _path_filter)
add_filter("verb", _verb)
add_filter("operation", _operation)
