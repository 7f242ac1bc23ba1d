"""The native command `sandwright`, which starts cached sandboxes without Python (docs/front.md)."""

from __future__ import annotations

from pathlib import Path

from sandwright.launcher import FLAGS, LAUNCH
from sandwright.prebuilt import PrebuiltProgram

FRONT = PrebuiltProgram(
    "sandwright",
    Path(__file__).parent,
    ("linux/amd64", "linux/arm64"),
    FLAGS,
    tuple(LAUNCH.source / name for name in ("document.c", "document.h", "sha256.c", "utils.c", "utils.h")),
)
