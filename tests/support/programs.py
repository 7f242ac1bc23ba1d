"""The shipped binaries."""

from __future__ import annotations

from sandwright.bridge.shim import SHIM_PROGRAM
from sandwright.front import FRONT
from sandwright.image.init import INIT
from sandwright.launcher import GUEST, LAUNCH, LAUNCH_INIT, LAUNCH_VM
from sandwright.runtime.probe import PROBE
from sandwright_kubernetes.copier import COPIER

PROGRAMS = (LAUNCH, FRONT, LAUNCH_INIT, LAUNCH_VM, GUEST, PROBE, INIT, SHIM_PROGRAM, COPIER)
