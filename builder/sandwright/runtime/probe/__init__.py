"""The probe: a small static program that attempts actions in a sandbox and reports the result of each.

Every sandbox that is started for a test runs it: preflights, proofs of policies, proofs of user mapping.
`source/main.c` describes its protocol, `protocol` speaks it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sandwright.errors import HostError
from sandwright.host import ARCHITECTURES
from sandwright.prebuilt import PrebuiltProgram

PROBE = PrebuiltProgram(
    "probe", Path(__file__).parent, ("linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64")
)


def own_probe() -> Path:
    """The probe for this machine. Raise HostError for a platform that it is not built for."""
    system = "darwin" if sys.platform == "darwin" else "linux"
    machine = os.uname().machine
    platform_key = f"{system}/{ARCHITECTURES.get(machine, machine)}"
    if platform_key not in PROBE.platforms:
        raise HostError(f"there is no probe program for {platform_key}")
    return PROBE.path(platform_key)
