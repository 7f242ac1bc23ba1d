"""Seccomp profiles: what they are made of, and how they are rendered for the engines, for gVisor and as BPF.

`profile` gives a shipped one. `render_oci`, `render_gvisor` and `compile_bpf` make artifacts of it.
`load_profile_json` reads a profile that someone else wrote; `resolve` says what an engine makes of it on one
machine, and `compile_filter` gives that as BPF.
"""

from sandwright.render.seccomp.bpf import compile_bpf, compile_filter
from sandwright.render.seccomp.catalogue import profile, profiles
from sandwright.render.seccomp.document import load_profile_json
from sandwright.render.seccomp.model import SeccompProfile
from sandwright.render.seccomp.oci import json_text, render_gvisor, render_oci
from sandwright.render.seccomp.resolve import resolve

__all__ = [
    "SeccompProfile",
    "compile_bpf",
    "compile_filter",
    "json_text",
    "load_profile_json",
    "profile",
    "profiles",
    "render_gvisor",
    "render_oci",
    "resolve",
]
