"""bubblewrap with the settings of an OCI bundle on its command line.

It is started with an empty environment, since the one it was started with stays readable in the sandbox as
/proc/1/environ (containers/bubblewrap#725). It can map one user id. When we are root, that is the image's
own: bwrap is started as that user, so that files belong to whom they should, and the root file system,
which others may not reach, is mounted for it first, in a mount namespace that ends with it. Files of other
owners show as owned by the overflow id.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandwright import process
from sandwright.host import MachineFacts
from sandwright.render.bubblewrap import BwrapArguments
from sandwright.rootfs.minimal.trace import readonly_devices
from sandwright.runtime.bundles import prepare
from sandwright.runtime.contract import Session, Start, Variant
from sandwright.runtime.oci import needs_emulator
from sandwright.runtime.scratch import hidden_directory
from sandwright.watchdog import Ended, run_bounded

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class BwrapRuntime:
    """The runtime bubblewrap."""

    name: str = "bwrap"
    program: str = "bwrap"

    def obstacle(self, host: MachineFacts, platform: str) -> str:
        """The obstacles of runc, and settings that prevent users from creating user namespaces."""
        if host.os == "linux" and not host.user_namespaces:
            return (
                "user namespaces are switched off for this user (sysctl user.max_user_namespaces and its kin)"
            )
        return needs_emulator(host, platform)

    def variants(self, host: MachineFacts) -> Sequence[Variant]:
        """One variant: as the image's user if we may become that user, else as a user mapped to it."""
        return (_AS_USER, _MAPPED) if host.is_root else (Variant(),)

    @contextlib.contextmanager
    def session(
        self,
        variant: Variant,
        host: MachineFacts,  # noqa: ARG002
        scratch: Path,
        stop: threading.Event,
    ) -> Iterator[Session]:
        """Nothing is kept between starts: a sandbox ends with bwrap."""
        (scratch / "root").mkdir()
        yield _BwrapSession(variant == _AS_USER, scratch, stop)

    def discard(self, scratch: Path, host: MachineFacts) -> None:
        """Do nothing: a sandbox ends with the process that started it."""


BWRAP = BwrapRuntime()

_AS_USER = Variant("as the image's user, from a separate mount namespace")
_MAPPED = Variant("as root, mapped to the image's user, who then owns root's files and not the user's")
_SCRIPT = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


@dataclass(frozen=True)
class _BwrapSession:
    as_user: bool
    scratch: Path
    stop: threading.Event

    def run(self, start: Start) -> Ended:
        bundle = prepare(start, hidden_directory(self.scratch.parent, self.scratch.name))
        shutil.rmtree(bundle.directory)
        wrap = self._as_user if self.as_user else self._bwrap_command
        words, limit, environment = wrap(bundle.config), start.limit, start.environment
        return run_bounded(words, limit=limit, stop=self.stop, env=environment, kill_descendants=True)

    def _bwrap_command(self, config: Mapping[str, Any]) -> list[str]:
        return [*readonly_devices(), "env", "-i", process.which("bwrap"), *bwrap_words(config)]

    def _as_user(self, config: Mapping[str, Any]) -> list[str]:
        point = str(self.scratch / "root")
        user = config["process"]["user"]
        groups = ",".join(map(str, user.get("additionalGids", ())))
        become = ["--reuid", str(user["uid"]), "--regid", str(user["gid"])]
        become += ["--groups", groups] if groups else ["--clear-groups"]
        moved = {**config, "root": {**config["root"], "path": point}}
        own_mounts = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, "sh"]
        words = ["env", "-i", process.which("setpriv"), *become, process.which("bwrap")]
        return [*own_mounts, config["root"]["path"], point, *words, *bwrap_words(moved)]


def bwrap_words(config: Mapping[str, Any]) -> list[str]:
    """The arguments for the settings of a runtime configuration; `root.path` in it is absolute.

    Settings that bubblewrap does not support are left out: sysfs, cgroup mounts and device nodes (it brings
    its own /dev), resource limits, and capabilities, of which it keeps none.
    """
    run, root = config["process"], config["root"]
    bwrap = BwrapArguments().unshare("all", "user").supervise().drop_capabilities()
    bwrap.user(run["user"]["uid"], run["user"]["gid"])
    if config.get("hostname"):
        bwrap.hostname(config["hostname"])
    bwrap.bind(root["path"], "/", writable=not root.get("readonly"))
    for mount in config.get("mounts", ()):
        _translate_mount(mount, bwrap)
    if root.get("readonly"):
        bwrap.remount_read_only("/")
    variables = (each.partition("=") for each in run.get("env", ()))
    bwrap.environment((name, value) for name, _, value in variables)
    return bwrap.chdir(run.get("cwd", "/")).command(run["args"]).words


def _translate_mount(mount: Mapping[str, Any], bwrap: BwrapArguments) -> None:
    destination, options = mount["destination"], mount.get("options", ())
    if destination == "/dev":
        bwrap.dev(destination)
        return
    if destination.startswith("/dev/"):
        return
    match mount.get("type"):
        case "proc":
            bwrap.proc(destination)
        case "tmpfs":
            values = dict(option.split("=", 1) for option in options if "=" in option)
            size = _parse_tmpfs_size(values.get("size", ""))
            bwrap.tmpfs(destination, mode=values.get("mode", "1777"), size=size or None)
        case "bind" | "none" | None if {"bind", "rbind"} & set(options):
            bwrap.bind(mount["source"], destination, writable="ro" not in options)


def _parse_tmpfs_size(text: str) -> int | None:
    """Bytes of a tmpfs size (tmpfs(5)): a number, perhaps with a unit; None for a share of the memory."""
    found = re.fullmatch(r"(\d+)([kmgKMG]?)", text)
    return int(found[1]) * _UNITS[found[2].lower()] if found else None
