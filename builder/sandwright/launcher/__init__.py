"""The program that starts a rendered sandbox, watches over it and cleans up after it (docs/launcher.md).

What runs inside a kernel of the sandbox's own is another, which has some sources in common with it.
"""

from __future__ import annotations

from pathlib import Path

from sandwright.prebuilt import PrebuiltProgram

SMALLER = ("-Xclang", "-Oz", "-fomit-frame-pointer")
"""Zig takes -Oz for -Os: the compiler itself has to be told. 15 KB of 261."""

LAUNCH = PrebuiltProgram("launch", Path(__file__).parent, ("linux/amd64", "linux/arm64"), SMALLER)

_SHARED = (
    *(
        "bytes.c",
        "relay.c",
        "exec.c",
        "init.c",
        "watch_mountns.c",
        "line.c",
        "dns.c",
        "ports.c",
        "privileges.c",
    ),
    *("process.c", "log.c", "utils.c", "tunnels.c"),
    *(
        "bytes.h",
        "document.h",
        "fields.h",
        "launch.h",
        "line.h",
        "plan.h",
        "ports.h",
        "tunnels.h",
        "utils.h",
        "watch.h",
    ),
)

GUEST = PrebuiltProgram(
    "guest",
    Path(__file__).parent / "guest",
    ("linux/amd64",),
    SMALLER,
    tuple(LAUNCH.source / name for name in _SHARED),
)
"""The first process of such a kernel, for method `vm`."""
