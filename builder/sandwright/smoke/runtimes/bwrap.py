"""bubblewrap, given what an OCI bundle says as command line.

It is started with an empty environment, since the one it was started with stays readable in the sandbox as
/proc/1/environ (containers/bubblewrap#725). It maps one user id, so that files of other owners show as
owned by the overflow id, and root's files, when root starts it, as owned by the sandbox's user.
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

from sandwright.host import HostFacts
from sandwright.smoke.contract import Session, Start, Variant
from sandwright.smoke.launch import Ended, launch
from sandwright.smoke.runtimes.bundles import prepare
from sandwright.smoke.runtimes.oci import needs_emulator

_ISOLATION = ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


@dataclass(frozen=True)
class Bwrap:
    """The row of bubblewrap."""

    name: str = "bwrap"
    program: str = "bwrap"

    def obstacle(self, host: HostFacts, platform: str) -> str:
        """As for runc; and settings that keep users from making user namespaces."""
        if host.os == "linux" and not host.user_namespaces:
            return (
                "user namespaces are switched off for this user (sysctl user.max_user_namespaces and its kin)"
            )
        return needs_emulator(host, platform)

    def variants(self, host: HostFacts) -> Sequence[Variant]:  # noqa: ARG002
        """There is one way."""
        return (Variant(),)

    @contextlib.contextmanager
    def session(
        self,
        variant: Variant,  # noqa: ARG002
        host: HostFacts,  # noqa: ARG002
        scratch: Path,
        stop: threading.Event,
    ) -> Iterator[Session]:
        """Nothing is kept between starts: a sandbox is gone when bwrap is."""
        yield _BwrapSession(scratch, stop)


BWRAP = Bwrap()


@dataclass(frozen=True)
class _BwrapSession:
    scratch: Path
    stop: threading.Event

    def run(self, start: Start) -> Ended:
        bundle = prepare(start, self.scratch)
        shutil.rmtree(bundle.directory)
        return launch(("bwrap", *bwrap_words(bundle.config)), limit=start.limit, stop=self.stop, env={})


def bwrap_words(config: Mapping[str, Any]) -> list[str]:
    """The arguments that give what a runtime configuration asks for; `root.path` in it is absolute.

    What bubblewrap can't do is left out: sysfs, cgroup mounts and device nodes (it brings its own /dev),
    resource limits, and capabilities, of which it keeps none.
    """
    process = config["process"]
    user = process["user"]
    words = [*_ISOLATION, "--uid", str(user["uid"]), "--gid", str(user["gid"])]
    if config.get("hostname"):
        words += ["--hostname", config["hostname"]]
    root = config["root"]
    words += ["--ro-bind" if root.get("readonly") else "--bind", root["path"], "/"]
    for mount in config.get("mounts", ()):
        words += _mount(mount)
    if root.get("readonly"):
        words += ["--remount-ro", "/"]
    for variable in process.get("env", ()):
        name, _, value = variable.partition("=")
        words += ["--setenv", name, value]
    return [*words, "--chdir", process.get("cwd", "/"), "--", *process["args"]]


def _mount(mount: Mapping[str, Any]) -> list[str]:
    destination = mount["destination"]
    options = mount.get("options", ())
    if destination == "/dev":
        return ["--dev", destination]
    if destination.startswith("/dev/"):
        return []
    match mount.get("type"):
        case "proc":
            return ["--proc", destination]
        case "tmpfs":
            return _tmpfs(destination, options)
        case "bind" | "none" | None if {"bind", "rbind"} & set(options):
            return ["--ro-bind" if "ro" in options else "--bind", mount["source"], destination]
        case _:
            return []


def _tmpfs(destination: str, options: Sequence[str]) -> list[str]:
    values = dict(option.split("=", 1) for option in options if "=" in option)
    words = ["--perms", values.get("mode", "1777")]
    if size := _size(values.get("size", "")):
        words += ["--size", str(size)]
    return [*words, "--tmpfs", destination]


def _size(text: str) -> int | None:
    """Bytes of a tmpfs size (tmpfs(5)): a number, perhaps with a unit; None for a share of the memory."""
    found = re.fullmatch(r"(\d+)([kmgKMG]?)", text)
    return int(found[1]) * _UNITS[found[2].lower()] if found else None
