"""Audits an image's configuration: its user, its command, its metadata (config.md)."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sandwright.check.finding import ImageFinding
from sandwright.check.secrets import secret_variable, secrets_in, secrets_in_command
from sandwright.errors import BuildError
from sandwright.image.tree import FileTree
from sandwright.release.contents import ImageContents
from sandwright.rootfs.bundles.identity import AccountFiles, resolve_user
from sandwright.rootfs.images.source import Image
from sandwright.rootfs.tar.entry import EntryKind

LABELS = ("created", "version", "revision", "source", "licenses")
"""From image-spec's annotations.md: those that identify an image."""

_PREFIX = "org.opencontainers.image."
_SYSTEM = ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/run", "/sbin", "/sys", "/usr")
_SHELLS = re.compile(r"(?:/\S*/)?(?:ba|da|a|z|k)?sh")
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_EXECUTABLE = 0o111
_REAL_TIME = re.compile(r"SIGRT(?:MIN|MAX)(?:[+-]\d{1,2})?")


_Type = Callable[[object], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _mapping(value: object) -> bool:
    return isinstance(value, dict)


def _labelled(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _is_step_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


_DOCUMENT: Mapping[str, _Type] = {"config": _mapping, "history": _is_step_list, "created": _is_text}
_CONFIG: Mapping[str, _Type] = {
    **dict.fromkeys(("User", "WorkingDir", "StopSignal"), _is_text),
    **dict.fromkeys(("Env", "Entrypoint", "Cmd"), _is_text_list),
    **dict.fromkeys(("Volumes", "ExposedPorts"), _mapping),
    "Labels": _labelled,
}
"""Fields by their type, if they are not null."""


def check_configuration(image: Image, contents: ImageContents) -> Iterator[ImageFinding]:
    """All findings of rules `config/…` and `secret/configuration`."""
    document, wrong = _typed(image.config, _DOCUMENT, "")
    config, inner = _typed(document.get("config") or {}, _CONFIG, "config.")
    manifest, misfits = _typed(image.manifest, {"annotations": _labelled}, "manifest.")
    yield from (*wrong, *inner, *misfits)
    environment = dict(each.partition("=")[::2] for each in config.get("Env") or ())
    yield from _user(config.get("User") or "", contents.tree)
    yield from _check_start(config, environment, contents.tree)
    yield from _check_search_path(environment, contents.tree)
    yield from _check_remaining(config)
    yield from _check_labels(document, config, manifest.get("annotations") or {})
    yield from _secrets(document, config, environment)


def _typed(
    document: Mapping[str, Any], types: Mapping[str, _Type], location: str
) -> tuple[dict[str, Any], list[ImageFinding]]:
    """The fields that have the type which config.md gives them, and a finding for each that hasn't."""
    remaining = dict(document)
    wrong = []
    for key, is_right in types.items():
        if remaining.get(key) is not None and not is_right(remaining[key]):
            wrong.append(
                ImageFinding("config/type", location + key, f"cannot be {_shorten_json(remaining.pop(key))}")
            )
    return remaining, wrong


def _shorten_json(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) < 60 else f"{text[:50]}…"


def _user(user: str, tree: FileTree) -> Iterator[ImageFinding]:
    texts = [
        (tree.content(path) or b"").decode("utf-8", "surrogateescape")
        for path in (b"etc/passwd", b"etc/group")
    ]
    try:
        identity = resolve_user(user, AccountFiles(*texts))
    except BuildError as error:
        yield ImageFinding("config/unknown-user", "User", str(error))
        return
    if identity.uid == 0:
        yield ImageFinding("config/user", "User", "is root" if user else "is not set, which is root")


def _check_start(
    config: Mapping[str, Any], environment: Mapping[str, str], tree: FileTree
) -> Iterator[ImageFinding]:
    argv = [*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())]
    directory = config.get("WorkingDir") or "/"
    if not directory.startswith("/"):
        yield ImageFinding("config/directory", "WorkingDir", f"'{directory}' is not absolute")
    if not argv:
        return
    where = "Entrypoint" if config.get("Entrypoint") else "Cmd"
    if len(argv) > 1 and _SHELLS.fullmatch(argv[0]) and argv[1] == "-c":
        yield ImageFinding("config/shell", where, f"is a line for {argv[0]}, which doesn't pass signals on")
    folders = environment.get("PATH", _DEFAULT_PATH).split(":")
    places = [argv[0]] if "/" in argv[0] else [f"{folder}/{argv[0]}" for folder in folders]
    if "/" in argv[0] and not argv[0].startswith("/"):
        places = [f"{directory}/{argv[0]}"]
    if not any(_is_executable(tree, candidate) for candidate in places):
        yield ImageFinding("config/program", where, f"'{argv[0]}' is not there, or cannot be executed")


def _is_executable(tree: FileTree, path: str) -> bool:
    real = tree.resolve(path.strip("/").encode("utf-8", "surrogateescape"))
    node = None if real is None else tree.get(real)
    return node is not None and node.kind is not EntryKind.DIRECTORY and bool(node.mode & _EXECUTABLE)


def _check_search_path(environment: Mapping[str, str], tree: FileTree) -> Iterator[ImageFinding]:
    for folder in environment.get("PATH", "/").split(":"):
        if not folder.startswith("/"):
            yield ImageFinding("config/path", "Env: PATH", f"'{folder}' is relative to wherever a program is")
            continue
        real = tree.resolve(folder.strip("/").encode("utf-8", "surrogateescape"))
        node = None if real is None else tree.get(real)
        if node is not None and node.mode & 0o002:
            yield ImageFinding("config/path", "Env: PATH", f"everybody can write to {folder}")


def _check_remaining(config: Mapping[str, Any]) -> Iterator[ImageFinding]:
    for volume in config.get("Volumes") or {}:
        path = "/" + str(volume).strip("/")
        if path in _SYSTEM or path.startswith(("/dev/", "/proc/", "/sys/")):
            yield ImageFinding("config/volume", "Volumes", f"{path} is a directory of the system")
    stop = config.get("StopSignal") or "SIGTERM"
    name = stop if stop.startswith("SIG") else f"SIG{stop}"
    is_signal = name in signal.Signals.__members__ or _REAL_TIME.fullmatch(name) is not None
    if not is_signal and not (stop.isascii() and stop.isdigit() and len(stop) < 4 and 0 < int(stop) < 65):
        yield ImageFinding("config/signal", "StopSignal", f"'{stop}' is no signal of Linux")


def _check_labels(
    document: Mapping[str, Any], config: Mapping[str, Any], annotations: Mapping[str, str]
) -> Iterator[ImageFinding]:
    labels = {**(config.get("Labels") or {}), **annotations}
    if document.get("created"):
        labels[f"{_PREFIX}created"] = document["created"]
    missing = [name for name in LABELS if not labels.get(_PREFIX + name)]
    if missing:
        yield ImageFinding("config/label", "", f"nothing says its {', '.join(missing)} ({_PREFIX}…)")


def _secrets(
    document: Mapping[str, Any], config: Mapping[str, Any], environment: Mapping[str, str]
) -> Iterator[ImageFinding]:
    named = [*((f"Env: {key}", key, value) for key, value in environment.items())]
    named += [(f"Labels: {key}", str(key), str(value)) for key, value in (config.get("Labels") or {}).items()]
    for where, key, value in named:
        if why := secret_variable(key, value):
            yield ImageFinding("secret/configuration", where, why)
    for number, step in enumerate(document.get("history") or ()):
        for what in dict.fromkeys(secrets_in_command(" ".join(map(str, step.values())))):
            yield ImageFinding("secret/configuration", f"history[{number}]", f"has {what} in it")
    rest = {key: value for key, value in config.items() if key not in ("Env", "Labels")}
    for what in secrets_in(json.dumps(rest).encode()):
        yield ImageFinding("secret/configuration", "config", f"has {what} in it")
