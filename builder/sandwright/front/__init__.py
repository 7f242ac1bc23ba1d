"""The native command `sandwright`, which starts cached sandboxes without Python (docs/front.md)."""

from __future__ import annotations

from pathlib import Path

from sandwright.launcher import FLAGS, LAUNCH
from sandwright.prebuilt import PrebuiltProgram

_SHARED = ("bytes.c", "bytes.h", "document.c", "document.h", "sha256.c", "utils.c", "utils.h")

FRONT = PrebuiltProgram(
    "sandwright",
    Path(__file__).parent,
    ("linux/amd64", "linux/arm64"),
    FLAGS,
    tuple(LAUNCH.source / name for name in _SHARED),
)
