"""A request of a process: the resource of an operation."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sandwright.errors import UsageError
from sandwright.evaluate.sbpl.network import Endpoint, endpoint
from sandwright.evaluate.sbpl.source import octets, readable
from sandwright.evaluate.sbpl.vocabulary import nearest, vocabulary

ResourceValue = str | bool | int | Sequence[str]
Resource = Mapping[str, ResourceValue]

_OWN_KEYS = frozenset({"path", "unix", "local", "remote", "proto", "setugid", "follow"})
_ALIASES = {"iokit-user-client-class": "iokit-registry-entry-class", "address": "remote"}
_TARGETS: dict[str, tuple[str, ...]] = {
    "self": ("self", "pgrp", "same-sandbox"),
    "pgrp": ("pgrp", "others"),
    "children": ("children", "same-sandbox", "others"),
    "same-sandbox": ("same-sandbox", "others"),
    "initproc": ("initproc", "others"),
    "others": ("others",),
}
"""The relations that a target process has besides the one that is named."""

_DEVICES = {
    "/dev/tty": "TTY",
    "/dev/pty": "TTY",
    "/dev/disk": "BLOCK-DEVICE",
    "/dev/fd": "DIRECTORY",
    "/dev/": "CHARACTER-DEVICE",
}
"""The kinds of files in /dev, by the beginning of the path; the first match counts."""

_TRUTH = {"true": True, "yes": True, "1": True, "": True, "false": False, "no": False, "0": False}


class SbplRequest:
    """A resource, ready to be compared. Text is octets; `path` is as given until it is resolved.

    Missing keys have defaults: a path names a regular file (except `/`, a path that ends in `/`, and the
    known symbolic links, sockets and devices), and a connection is TCP.
    """

    path: str | None = None
    link: bool = False
    values: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    unix: bool = False
    network: bool = False
    remote: Endpoint | None = None
    local: Endpoint | None = None
    transport: str = "tcp"
    setugid: bool = False
    follow: bool | None = None

    def __init__(self, path: str | None = None, *, link: bool = False) -> None:
        """A request about a path, in octets; `link`: it is known to be a symbolic link."""
        self.path = path
        if link:
            self.link = True

    def texts(self, key: str) -> tuple[str, ...]:
        """The values of a key that is compared as text."""
        if key == "path":
            return () if self.path is None else (self.path,)
        if key == "mount-relative-path" and key not in self.values and self.path is not None:
            return (_below_mount(self.path),)
        return self.values.get(key, ())

    def numbers(self, key: str) -> tuple[int | str, ...]:
        """The values of a key that is compared as a number or by name: both, where known."""
        listed = self.values.get(key, ())
        if key == "vnode-type":
            listed = listed or self._assumed_types()
            listed = (*listed, "CHARACTER-DEVICE") if "TTY" in listed else listed
        if key in ("target", "semaphore-owner"):
            listed = tuple(relation for item in listed for relation in _TARGETS.get(item, (item,)))
        kind = vocabulary().filters.get(key)
        constants = kind.constants if kind else {}
        found: list[int | str] = []
        for item in listed:
            number = _parse_integer(item)
            found.append(item if number is None else number)
            if number is None and item in constants:
                found.append(constants[item])
        return tuple(found)

    def flag(self, key: str) -> bool:
        """The value of a boolean key."""
        listed = self.values.get(key)
        return listed is not None and _TRUTH.get(listed[0].lower(), True)

    def endpoint(self, key: str) -> Endpoint | None:
        """The `local` or `remote` end of its connection."""
        return self.remote if key == "remote" else self.local

    def _assumed_types(self) -> tuple[str, ...]:
        if self.link:
            return ("SYMLINK",)
        if self.unix:
            return ("SOCKET",)
        if self.path is None:
            return ()
        for start, kind in _DEVICES.items():
            if self.path.startswith(start):
                return (kind,)
        return ("DIRECTORY",) if self.path == "/" else ("REGULAR-FILE",)


def parse_request(resource: Resource) -> SbplRequest:
    """A request from keys and values, as a command line or a JSON line gives them.

    Keys may be written with `_` for `-`. Raise UsageError for a key no operation has and for a value that
    makes no sense.
    """
    path = resource.get("path")
    if isinstance(path, str) and len(resource) == 1:
        request = SbplRequest(octets(path))
        _check_path(request, request.path or "")
        return request
    return _parse(resource)


def _parse(resource: Resource) -> SbplRequest:
    request = SbplRequest()
    values: dict[str, tuple[str, ...]] = {}
    for name, listed in resource.items():
        key = name if name in _OWN_KEYS else _resource_key(name)
        if key in ("unix", "setugid", "follow"):
            _set_flag(request, key, listed)
        elif key == "path":
            request.path = _resource_text(key, listed)
        elif key in ("local", "remote"):
            _set_endpoint(request, key, _resource_text(key, listed))
        elif key == "proto":
            request.transport = _resource_text(key, listed).lower().rstrip("46")
        else:
            items = listed if isinstance(listed, list | tuple) else [listed]
            values[key] = tuple(
                _file_mode(item) if key == "file-mode" else _resource_text(key, item) for item in items
            )
    if values:
        request.values = values
    if request.path is not None:
        _check_path(request, request.path)
    return request


def _check_path(request: SbplRequest, path: str) -> None:
    if not path.startswith("/"):
        raise UsageError(f"a resource's path must begin with /, not {readable(path)!r}")
    if "\0" in path:
        raise UsageError("a resource's path cannot hold a NUL byte")
    if path.endswith("/"):
        request.values = {"vnode-type": ("DIRECTORY",), **request.values}


@functools.cache
def _resource_key(name: str) -> str:
    """The key that is meant. Raise UsageError when there is none."""
    key = name.replace("_", "-")
    key = _ALIASES.get(key, key)
    keys = _OWN_KEYS.union(kind.key for kind in vocabulary().filters.values())
    if key not in keys:
        raise UsageError(f"no operation has the resource key {name!r}{nearest(key, keys)}")
    return key


def _resource_text(key: str, value: object) -> str:
    if isinstance(value, str):
        return octets(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return octets(str(value))
    raise UsageError(f"the resource key {key!r} needs text, not {type(value).__name__}")


def _file_mode(listed: object) -> str:
    """A file's mode: digits are octal, as chmod(1) takes them."""
    text = _resource_text("file-mode", listed)
    return f"0{text}" if isinstance(listed, str) and text.isdigit() else text


def _set_flag(request: SbplRequest, key: str, value: object) -> None:
    text = _resource_text(key, value)
    if key == "unix" and text.startswith("/"):
        request.unix, request.path = True, text
        return
    truth = _TRUTH.get(text.lower())
    if truth is None:
        raise UsageError(f"the resource key {key!r} is true or false, not {text!r}")
    setattr(request, key, truth)


def _set_endpoint(request: SbplRequest, key: str, text: str) -> None:
    if text.startswith("/"):
        request.unix, request.path = True, text
        return
    try:
        setattr(request, key, endpoint(text))
    except ValueError as error:
        raise UsageError(f"the resource key {key!r}: {error}") from None
    request.network = True


def _parse_integer(text: str) -> int | None:
    if text.startswith(("#o", "0o")) and text[2:].isdigit():
        return int(text[2:], 8)
    try:
        return int(text, 0) if not text.startswith("0") or text == "0" or text[1:2] in "xX" else int(text, 8)
    except ValueError:
        return None


def _below_mount(path: str) -> str:
    """A path relative to its mount: below `/Volumes/NAME` the rest, else the path itself."""
    if not path.startswith("/Volumes/"):
        return path
    _, slash, rest = path[len("/Volumes/") :].partition("/")
    return slash + rest or "/"
