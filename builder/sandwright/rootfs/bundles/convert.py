"""Turns an image's configuration (entrypoint, user) into a runtime's by the image-spec, conversion.md. Pure.

Some settings of the image are kept exactly, as the specification requires: arguments, environment, working
directory, annotations. Settings that the image must not control come from the baseline in `oci/`:
capabilities, mounts, masks, namespaces. Labels that would steer a runtime are left out (CVE-2026-53488,
CVE-2026-50195, CVE-2026-53492).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandwright.errors import BuildError
from sandwright.render.baseline import Baseline, BaselineMount, Rlimit
from sandwright.rootfs.bundles.identity import ExecUser

OCI_VERSION = "1.0.2"
"""The oldest runtime-spec that has every field we write; runtimes refuse versions newer than their own."""

_IMAGE = "org.opencontainers.image."
_HOSTNAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,62}[A-Za-z0-9])?")


@dataclass(frozen=True)
class CallerIds:
    """The caller's ids on the host, when the runtime runs without root."""

    uid: int
    gid: int


@dataclass(frozen=True)
class BundleOptions:
    """The caller's changes to the image's configuration.

    `command` replaces entrypoint and arguments of the image; `arguments` replaces only its arguments. None
    keeps them. `environment` wins over the image's. `mounts` come after the baseline's and replace those with
    the same destination. `capabilities` names a set of the baseline. With `terminal`, the runtime makes a
    terminal. `writable` makes the root writable. With it, or with `embed_root`, the root is in the bundle;
    otherwise bundles share it.
    """

    command: tuple[str, ...] | None = None
    arguments: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    hostname: str | None = None
    terminal: bool = False
    mounts: tuple[BaselineMount, ...] = ()
    capabilities: str = "none"
    rlimits: tuple[Rlimit, ...] = ()
    writable: bool = False
    embed_root: bool = False


PLAIN = BundleOptions()


def runtime_config(
    image_config: Mapping[str, Any],
    identity: ExecUser,
    *,
    baseline: Baseline,
    rootfs: str = "rootfs",
    settings: BundleOptions = PLAIN,
    volumes: Sequence[BaselineMount] = (),
    rootless: CallerIds | None = None,
) -> dict[str, Any]:
    """The `config.json` for an image's configuration.

    `rootfs` is the path of the root, relative to the bundle. `volumes` are the mounts for the image's
    volumes, which need its files to be decided. For `rootless` the process is root in a user namespace
    that maps only the caller, independent of `identity`, because there is only one id. Raise BuildError where
    the configuration breaks a rule.
    """
    config = image_section(image_config)
    process = _oci_process(config, identity, baseline, settings)
    if rootless:
        process["user"] = {"uid": 0, "gid": 0}
    return {
        "ociVersion": OCI_VERSION,
        "process": process,
        "root": {"path": rootfs, "readonly": not settings.writable},
        "hostname": _hostname(settings.hostname or baseline.hostname),
        "mounts": _oci_mounts(baseline, [*volumes, *settings.mounts], rootless),
        "annotations": convert_labels(image_config, baseline)[0],
        "linux": _linux(baseline, rootless),
    }


def image_section(image_config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The `config` object of an image's configuration; null or absent is an empty one."""
    section = image_config.get("config")
    if section is not None and not isinstance(section, dict):
        raise BuildError("image config: config must be an object")
    return section or {}


def process_args(config: Mapping[str, Any], settings: BundleOptions) -> list[str]:
    """The command line. Raise BuildError when neither image nor caller names a program."""
    entrypoint = _strings(config, "Entrypoint")
    arguments = _strings(config, "Cmd") if settings.arguments is None else list(settings.arguments)
    args = entrypoint + arguments if settings.command is None else list(settings.command)
    if not args or not args[0]:
        raise BuildError("the image names no program (Entrypoint and Cmd are empty): give a command")
    if any("\0" in arg for arg in args):
        raise BuildError("the command has an argument with a NUL byte, which no program can be given")
    return args


def process_env(config: Mapping[str, Any], settings: BundleOptions, defaults: Mapping[str, str]) -> list[str]:
    """The environment: the image's entries as they are, then `defaults` for names that it doesn't have."""
    entries = _strings(config, "Env")
    for entry in entries:
        if not entry.partition("=")[1] or entry.startswith("=") or "\0" in entry:
            raise BuildError(f"image config: Env: {entry[:100]!r} is not NAME=value")
    entries = [entry for entry in entries if entry.partition("=")[0] not in settings.environment]
    entries += [f"{name}={value}" for name, value in settings.environment.items()]
    present = {entry.partition("=")[0] for entry in entries}
    return entries + [f"{name}={value}" for name, value in defaults.items() if name not in present]


def process_cwd(config: Mapping[str, Any], settings: BundleOptions = PLAIN) -> str:
    """The working directory as the image writes it, else `/`. Raise BuildError for a relative one."""
    cwd = settings.cwd or _string_field(config, "WorkingDir") or "/"
    if not cwd.startswith("/") or "\0" in cwd:
        raise BuildError(f"working directory {cwd!r} is not an absolute path")
    return cwd


def user(config: Mapping[str, Any]) -> str:
    """`USER` of the image as it is written; empty when there is none."""
    return _string_field(config, "User")


def volume_paths(config: Mapping[str, Any]) -> list[str]:
    """The image's volumes, parents first. Raise BuildError for one that is not a plain absolute path."""
    paths = sorted(_keys(config, "Volumes"), key=lambda path: (path.count("/"), path))
    for path in paths:
        parts = path.rstrip("/").split("/")[1:]
        if (
            not path.startswith("/")
            or not parts
            or not all(parts)
            or {".", ".."} & set(parts)
            or "\0" in path
        ):
            raise BuildError(f"image config: volume {path!r} is not an absolute, normalised path below /")
    return [path.rstrip("/") for path in paths]


def convert_labels(image_config: Mapping[str, Any], baseline: Baseline) -> tuple[dict[str, str], list[str]]:
    """The annotations, and the keys of labels that were left out because they would steer a runtime.

    Labels override values that the configuration implies; values are never changed.
    """
    labels = image_section(image_config).get("Labels") or {}
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise BuildError("image config: Labels must be an object of strings")
    stripped = sorted(key for key in labels if not key or _steers(key, baseline.strip))
    remaining = {key: value for key, value in labels.items() if key not in stripped}
    return {**_implied_labels(image_config), **remaining}, stripped


def _implied_labels(image_config: Mapping[str, Any]) -> dict[str, str]:
    config = image_section(image_config)
    names = ("os", "architecture", "variant", "os.version", "author", "created")
    values = {name: _string_field(image_config, name) for name in names}
    values["os.features"] = ",".join(_strings(image_config, "os.features"))
    values["stopSignal"] = _string_field(config, "StopSignal")
    values["exposedPorts"] = ",".join(sorted(_keys(config, "ExposedPorts")))
    return {_IMAGE + name: value for name, value in values.items() if value}


def _steers(key: str, strip: Iterable[str]) -> bool:
    return any(key.startswith(each[:-1]) if each.endswith("*") else key == each for each in strip)


def _oci_process(
    config: Mapping[str, Any], identity: ExecUser, baseline: Baseline, settings: BundleOptions
) -> dict[str, Any]:
    defaults = {
        "PATH": baseline.path,
        "HOME": identity.home,
        **({"TERM": "xterm"} if settings.terminal else {}),
    }
    who: dict[str, Any] = {"uid": identity.uid, "gid": identity.gid}
    if identity.groups:
        who["additionalGids"] = list(identity.groups)
    return {
        "terminal": settings.terminal,
        "user": who,
        "args": process_args(config, settings),
        "env": process_env(config, settings, defaults),
        "cwd": process_cwd(config, settings),
        "capabilities": _capability_sets(baseline, settings.capabilities),
        "rlimits": _rlimit_entries([*baseline.rlimits, *settings.rlimits]),
        "noNewPrivileges": True,
    }


def _capability_sets(baseline: Baseline, name: str) -> dict[str, list[str]]:
    """Never inheritable or ambient ones: file capabilities would pick them up (CVE-2022-24769)."""
    if name not in baseline.capabilities:
        raise BuildError(f"no capability set {name!r}; there are {', '.join(sorted(baseline.capabilities))}")
    held = sorted(baseline.capabilities[name])
    return {"bounding": held, "effective": held, "permitted": held}


def _rlimit_entries(limits: Iterable[Rlimit]) -> list[dict[str, Any]]:
    """One entry a type (two are an error to the runtime-spec); the last given wins."""
    chosen = {limit.type: {"type": limit.type, "soft": limit.soft, "hard": limit.hard} for limit in limits}
    return [chosen[name] for name in sorted(chosen)]


def _oci_mounts(
    baseline: Baseline, more: Iterable[BaselineMount], rootless: CallerIds | None
) -> list[dict[str, Any]]:
    """All mounts, parents before children, one per destination: the last one wins."""
    chosen = {mount.destination: mount for mount in baseline.mounts}
    if rootless:
        chosen[baseline.rootless_sys.destination] = baseline.rootless_sys
    for mount in more:
        chosen[mount.destination] = mount
    ordered = sorted(chosen.values(), key=lambda mount: mount.destination.rstrip("/").count("/"))
    return [
        {
            "destination": mount.destination,
            "type": mount.type,
            "source": mount.source,
            "options": [option for option in mount.options if not (rootless and _names_an_id(option))],
        }
        for mount in ordered
    ]


def _names_an_id(option: str) -> bool:
    """Whether a mount option names an id, which a namespace that maps one id doesn't have."""
    return option.startswith(("uid=", "gid="))


def _linux(baseline: Baseline, rootless: CallerIds | None) -> dict[str, Any]:
    linux: dict[str, Any] = {
        "namespaces": [{"type": kind} for kind in baseline.namespaces],
        "maskedPaths": list(baseline.masked),
        "readonlyPaths": list(baseline.readonly),
    }
    if rootless is None:
        linux["resources"] = {"devices": [{"allow": False, "access": "rwm"}]}
        return linux
    linux["namespaces"].append({"type": "user"})
    linux["uidMappings"] = [{"containerID": 0, "hostID": rootless.uid, "size": 1}]
    linux["gidMappings"] = [{"containerID": 0, "hostID": rootless.gid, "size": 1}]
    linux["maskedPaths"] += baseline.masked_rootless
    return linux


def _hostname(name: str) -> str:
    if not _HOSTNAME.fullmatch(name):
        raise BuildError(f"host name {name!r}: at most 64 letters, digits, dots and hyphens")
    return name


def _string_field(section: Mapping[str, Any], key: str) -> str:
    value = section.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BuildError(f"image config: {key} must be a string")
    return value


def _strings(section: Mapping[str, Any], key: str) -> list[str]:
    value = section.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BuildError(f"image config: {key} must be an array of strings")
    return list(value)


def _keys(section: Mapping[str, Any], key: str) -> list[str]:
    value = section.get(key)
    if value is None:
        return []
    if not isinstance(value, dict):
        raise BuildError(f"image config: {key} must be an object")
    return list(value)
