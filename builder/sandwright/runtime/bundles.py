"""The bundle of a single start: the image's own, with another command, beside it and sharing its root."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandwright.documents.fields import RUNTIME
from sandwright.documents.strictjson import parse_json
from sandwright.errors import ArchiveRefused, BuildError
from sandwright.rootfs.bundles.identity import ExecUser
from sandwright.rootfs.unpacking.store import encode
from sandwright.runtime.contract import RunAs, Start
from sandwright.runtime.scratch import PREFIX

Config = dict[str, Any]
"""A runtime configuration, as JSON has it."""


@dataclass(frozen=True)
class StartBundle:
    """A bundle directory that holds only a config.json. `id` names the container."""

    id: str
    directory: Path
    config: Mapping[str, Any]


def prepare(
    start: Start, bundles: Path, adapt: Callable[[Config], Config] = lambda config: config
) -> StartBundle:
    """Write the bundle of one start under `bundles`, as `adapt` wants its configuration.

    The root file system is named by its absolute path. No sandbox may write in `bundles`.
    """
    config = read_config(start.subject.bundle)
    config["root"] = {**config["root"], "path": str(root_of(start.subject.bundle, config))}
    config["process"] = {**config["process"], "terminal": False}
    if start.argv is not None:
        config["process"]["args"] = list(start.argv)
    if start.run_as is not None:
        _run_as(config, start.run_as)
    config = adapt(config)
    name = PREFIX + uuid.uuid4().hex[:16]
    directory = bundles / name
    directory.mkdir(mode=0o700)
    (directory / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True))
    return StartBundle(name, directory, config)


def _run_as(config: Config, run_as: RunAs) -> None:
    process = config["process"]
    uid, gid = run_as.user
    environment = [each for each in process.get("env", ()) if not each.startswith("HOME=")]
    process |= {
        "args": [*run_as.entrypoint, *process["args"]],
        "user": {"uid": uid, "gid": gid},
        "env": [*environment, *(f"{name}={value}" for name, value in run_as.environment.items())],
        "capabilities": {name: list(run_as.capabilities) for name in ("bounding", "effective", "permitted")},
    }
    config["root"]["readonly"] = run_as.read_only
    for target, source in run_as.mounts.items():
        options = ["rbind", "rw" if target in run_as.writable else "ro"]
        mount = {"destination": target, "type": "bind", "source": str(source), "options": options}
        config.setdefault("mounts", []).append(mount)


def read_config(bundle: Path) -> Config:
    """The config.json of a bundle. Raise BuildError when it is not there, or without root and process."""
    path = bundle / "config.json"
    try:
        config = parse_json(path.read_bytes(), str(path), RUNTIME)
    except OSError as error:
        raise BuildError(f"{path}: {error}") from error
    except ArchiveRefused as error:
        raise BuildError(str(error)) from error
    if not {"root", "process"} <= config.keys():
        raise BuildError(f"{path}: not a runtime configuration with root and process")
    return config


def set_user(bundle: Path, user: ExecUser) -> None:
    """Have a bundle run as a user of its image. A rootless one has root, as runc provides no other."""
    config = read_config(bundle)
    config["process"]["user"] = {"uid": user.uid, "gid": user.gid}
    if user.groups:
        config["process"]["user"]["additionalGids"] = list(user.groups)
    (bundle / "config.json").write_bytes(encode(config))


def root_of(bundle: Path, config: Mapping[str, Any]) -> Path:
    """The root file system of a bundle; `root.path` is relative to the bundle unless it is absolute."""
    path: str = config["root"]["path"]
    return (bundle / path).resolve()
