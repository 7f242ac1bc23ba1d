"""Gives up root's right to open files that their modes close, for a process that acts for a sandbox.

Root inside has no capability over the host's files. Without this, programs inside could have root outside
read a file of another user for them.
"""

from __future__ import annotations

import ctypes
import os
import sys

_VERSION = 0x20080522
"""Of capget(2) and capset(2): two words of 32 bits for each set."""

_OVERRIDES = 1 << 1 | 1 << 2
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH (linux/capability.h)."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def obey_modes() -> None:
    """Have file modes apply to this thread and those that it starts, but not to programs that it executes.

    Raise OSError if the kernel refuses. macOS has no capabilities, so nothing changes there.
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = _Header(_VERSION, 0), (_Sets * 2)()
    if libc.capget(ctypes.byref(header), sets) == 0:
        sets[0].effective &= ~_OVERRIDES
        sets[0].permitted &= ~_OVERRIDES
        if libc.capset(ctypes.byref(header), sets) == 0:
            return
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))
