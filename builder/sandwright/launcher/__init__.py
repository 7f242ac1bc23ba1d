"""The program that starts a rendered sandbox, watches over it and cleans up after it (docs/launcher.md).

Three others run inside, and have sources in common with it: the first process of a sandbox, the program that
starts a kernel for one sandbox, and the first process of that kernel.
"""

from __future__ import annotations

from pathlib import Path

from sandwright.prebuilt import PrebuiltProgram

FLAGS = ("-fPIE", "-pie", "-fstack-clash-protection", "-Wl,-z,relro,-z,now,-z,noexecstack")
"""A static PIE (`-static-pie` is Zig's `-static -pie`), besides crossbuild's `-fstack-protector-strong`.

`-D_FORTIFY_SOURCE` would do nothing: musl's headers have no checked functions.
"""

_ROOM = Path(__file__).parent
_PLATFORMS = ("linux/amd64", "linux/arm64")

LAUNCH = PrebuiltProgram("launch", _ROOM, _PLATFORMS, FLAGS)


def _shared(*names: str) -> tuple[Path, ...]:
    return tuple(LAUNCH.source / name for name in names)


_HEADERS = _shared(
    *("bytes.h", "document.h", "fields.h", "launch.h", "log.h", "plan.h"),
    *("run_document.h", "run_fields.h", "utils.h"),
)

LAUNCH_INIT = PrebuiltProgram(
    "launch-init",
    _ROOM / "init",
    _PLATFORMS,
    FLAGS,
    (
        *_HEADERS,
        *_shared("broker.h", "filter.h", "landlock.h", "ports.h", "refusals.h", "requests.h"),
        *_shared(
            "backstop_inside.c", "confine.c", "exec.c", "filter.c", "init.c", "landlock_rules.c", "log.c"
        ),
        *_shared("fd_passing.c", "privileges.c", "process.c", "requests_inside.c", "utils.c"),
    ),
)
"""The first process inside: it confines itself, and starts the command."""

LAUNCH_VM = PrebuiltProgram(
    "launch-vm",
    _ROOM / "machine",
    ("linux/amd64",),
    FLAGS,
    (
        *_HEADERS,
        *_shared(
            "broker.h",
            "filter.h",
            "line.h",
            "ports.h",
            "refusals.h",
            "tunnels.h",
            "vm.h",
            "vm_ports.h",
            "watch.h",
        ),
        *_shared("bytes.c", "confine.c", "exec.c", "fd_passing.c", "filter.c", "init.c", "line.c", "log.c"),
        *_shared("mountinfo.c", "qemu.c"),
        *_shared("tunnels.c", "utils.c", "vm_handshake.c", "vm_kernel.c", "vm_relay.c"),
    ),
)
"""The program that starts the sandbox's own kernel inside, for method `vm`."""

GUEST = PrebuiltProgram(
    "guest",
    _ROOM / "guest",
    ("linux/amd64",),
    FLAGS,
    (
        *_HEADERS,
        *_shared("line.h", "ports.h", "tunnels.h", "watch.h"),
        *_shared(
            "bytes.c",
            "dns.c",
            "exec.c",
            "fd_passing.c",
            "init.c",
            "line.c",
            "log.c",
            "ports.c",
            "privileges.c",
        ),
        *_shared("process.c", "relay.c", "tunnels.c", "utils.c", "watch_mountns.c"),
    ),
)
"""The first process of such a kernel, for method `vm`."""
