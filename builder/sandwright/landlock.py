"""Asks the kernel for its version (ABI) of Landlock; the C programs make the rules."""

from __future__ import annotations

import ctypes

_CREATE_RULESET, _QUERY_VERSION = 444, 1

BACKSTOP = 2
"""The version that the second wall needs (Linux 5.19): before, no file can be moved between directories."""


def landlock_version() -> int:
    """The version of the kernel's Landlock (landlock_create_ruleset(2)); 0 where it is off or isn't there."""
    call = ctypes.CDLL(None).syscall
    return max(0, int(call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_QUERY_VERSION))))
