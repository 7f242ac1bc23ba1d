"""Seccomp profiles: parses, decides, adapts, writes and compiles them.

`profile` gives a shipped profile. `render_oci`, `render_gvisor` and `compile_bpf` make artifacts of it.
`load_profile_json` reads a profile that somebody else wrote; `resolve` says what an engine makes of it on one
machine, and `compile_filter` gives that as BPF. `decide` answers about a resolved profile. The linter is in
`lint`, the question of the command line in `command`. `sandwright.evaluate.bpf` checks compiled programs
independently.
"""

from sandwright.seccomp.bpf import compile_bpf, compile_filter
from sandwright.seccomp.catalogue import profile, profiles
from sandwright.seccomp.decide import Call, Decision, decide, decide_profile
from sandwright.seccomp.document import load_profile_json
from sandwright.seccomp.model import SeccompProfile
from sandwright.seccomp.oci import render_gvisor, render_oci
from sandwright.seccomp.resolve import resolve

__all__ = [
    "Call",
    "Decision",
    "SeccompProfile",
    "compile_bpf",
    "compile_filter",
    "decide",
    "decide_profile",
    "load_profile_json",
    "profile",
    "profiles",
    "render_gvisor",
    "render_oci",
    "resolve",
]
