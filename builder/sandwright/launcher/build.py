"""`python -m sandwright.launcher.build`: builds the committed programs from `source/`, with their digests."""

from __future__ import annotations

import hashlib
import json

from sandwright import crossbuild
from sandwright.launcher import LAUNCH
from sandwright.prebuilt import PrebuiltProgram


def rebuild(program: PrebuiltProgram) -> None:
    """Build a program for each of its platforms. Raise ToolMissing without `ziglang`."""
    digests = {}
    for platform in program.platforms:
        made = crossbuild.build(program.sources(), target=platform, output=program.path(platform))
        digests[platform] = f"sha256:{hashlib.sha256(made.read_bytes()).hexdigest()}"
    record = {"programs": digests, "zig": crossbuild.compiler_version()}
    program.record.write_text(json.dumps(record, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    rebuild(LAUNCH)
