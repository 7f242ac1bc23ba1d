"""Whether bubblewrap works here (preflight), and how it is started: rootless, without a daemon."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.errors import HostError
from sandwright.host import MachineFacts
from sandwright.methods.contract import LIMIT, Code, Leftover, Preflight
from sandwright.methods.shared.launched import LAUNCHER, Launched, status_numbers
from sandwright.methods.shared.namespaces import namespace_obstacle
from sandwright.methods.shared.trial import HOST_ROOT, judged, try_out
from sandwright.resources import data_path
from sandwright.runtime.trial import Failed
from sandwright.signalling import kill

_GRACE = 2.0
"""Seconds."""


@dataclass(frozen=True)
class Bwrap(Launched):
    """The method bubblewrap."""

    name: str = "bwrap"

    def programs(self) -> Sequence[str]:
        """The program bwrap."""
        return ("bwrap",)

    def preflight(self, host: MachineFacts, *, limit: float = LIMIT) -> Preflight:
        """Start it with a policy that hides one directory."""
        if host.os != "linux":
            return Preflight(self.name, "wrong-system", f"bubblewrap is Linux'; this is {host.os}")
        if "bwrap" not in host.programs:
            from sandwright.setup.requirements import how_to_get  # noqa: PLC0415 - each first run pays for it

            get = how_to_get("bwrap", host.package_manager)
            return Preflight(
                self.name, "program-missing", "bwrap is not installed", get and f"get it with: {get}"
            )
        return judged(
            self.name, try_out(self, HOST_ROOT, limit=limit), lambda failed: explain_failure(failed, host)
        )

    def leftovers(self, running: Iterable[str]) -> Iterator[Leftover]:  # noqa: ARG002 - by processes
        """Sandboxes that still wait for their start, because all processes that could start them were killed.

        Other processes of bubblewrap end within moments.
        """
        found = [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _is_forsaken(int(entry.name))]
        deadline = time.monotonic() + _GRACE
        while found and time.monotonic() < deadline:
            time.sleep(0.05)
            found = [each for each in found if _is_forsaken(each)]
        for each in found:
            yield Leftover(self.name, "process", str(each))

    def remove(self, leftover: Leftover) -> None:
        """Kill a waiting sandbox, in which nothing runs yet. Another `cleanup` may have done so already."""
        process = int(leftover.name)
        ended = kill(process, sure=lambda: _is_forsaken(process))
        if not ended and Path(f"/proc/{process}/exe").exists():
            raise HostError(f"{leftover} is not a process that a run left behind")


def _is_forsaken(process: int) -> bool:
    """Whether it is process 1 of a sandbox of this user that a launcher began, and its bubblewrap has gone.

    bubblewrap arranges for the kernel to end process 1 with it only after the wait of `--block-fd` ends.
    Until then, process 1 holds the pipe that it waits for, which the launcher opened for reading and writing.
    No other process has an end of a pipe opened in this way, under any name.
    """
    with contextlib.suppress(OSError, IndexError, ValueError):
        process_dir = Path(f"/proc/{process}")
        words = (process_dir / "cmdline").read_bytes().partition(b"\0--\0")[0].split(b"\0")
        if words[0] != b"bwrap" or b"--json-status-fd" not in words:
            return False
        waits_on = int(words[words.index(b"--block-fd") + 1])
        parent = int((process_dir / "stat").read_bytes().rpartition(b")")[2].split()[1])
        above = Path(f"/proc/{parent}/comm").read_bytes().strip()
        return (
            status_numbers(process, b"NSpid")[1:] == [1]
            and status_numbers(process, b"Uid")[0] == os.geteuid()
            and above != LAUNCHER.encode()
            and not _run_one_program(process, parent)  # its bubblewrap, under any name
            and _is_whole_pipe(process_dir, waits_on)
        )
    return False


def _run_one_program(process: int, parent: int) -> bool:
    """Whether both do. Processes of another user cannot be inspected."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/exe").samefile(f"/proc/{parent}/exe")
    return False


def _is_whole_pipe(process: Path, descriptor: int) -> bool:
    flags = (process / "fdinfo" / str(descriptor)).read_text().partition("flags:")[2].split()[0]
    pipe = str((process / "fd" / str(descriptor)).readlink()).startswith("pipe:")
    return pipe and int(flags, 8) & os.O_ACCMODE == os.O_RDWR


def explain_failure(failed: Failed, host: MachineFacts) -> tuple[Code, str, str]:
    """The cause of a failed start on this machine, and the remedy."""
    stderr = failed.output
    if "Creating new namespace failed: Permission denied" in stderr:  # EACCES: security_create_user_ns
        return (
            "namespaces-restricted",
            "a security module (AppArmor, SELinux) refuses bubblewrap new namespaces",
            f"allow its profile `userns`, as {data_path('oci', 'apparmor', 'sandwright-bwrap')} does",
        )
    if "No permissions to creat" in stderr or "Creating new namespace failed" in stderr:  # `create a new …`
        return _namespace_fault(host)
    if "setting up uid map" in stderr or "RTM_NEWADDR" in stderr:
        return namespace_obstacle(host, profile=_profile_remedy()) or (
            "container-filter",
            f"cannot set up the user namespace: {stderr}",
            _outer_container_advice(host),
        )
    if "Can't mount proc" in stderr:
        message = "mounts over /proc prevent mounting a new one"
        return "container-masks", message, _outer_container_advice(host)
    if "pivot_root" in stderr or "make / slave" in stderr or "Failed to mount" in stderr:
        return "container-filter", f"mounting is refused here: {stderr}", _outer_container_advice(host)
    return "not-started", stderr, ""


def _namespace_fault(host: MachineFacts) -> tuple[Code, str, str]:
    if found := namespace_obstacle(host, profile=_profile_remedy()):
        return found
    if host.surroundings != "machine":
        return (
            "container-filter",
            "the container around this process refuses new namespaces",
            _outer_container_advice(host),
        )
    return "namespaces-off", "the kernel refuses new namespaces", ""


def _profile_remedy() -> str:
    profile = data_path("oci", "apparmor", "sandwright-bwrap")
    return (
        f"sudo install -m 644 {shlex.quote(str(profile))} /etc/apparmor.d/ && "
        f"sudo apparmor_parser -r /etc/apparmor.d/{profile.name}"
    )


def _outer_container_advice(host: MachineFacts) -> str:
    """Advice on starting a container in which bwrap works (measured with runc 1.1 and crun 1.8)."""
    if host.surroundings == "machine":
        return ""
    return (
        "start the outer container with a seccomp profile that allows unshare, mount, umount2 and "
        "pivot_root, and with --security-opt systempaths=unconfined"
    )
