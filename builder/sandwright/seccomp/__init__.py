"""Seccomp profiles: parses, decides, adapts, writes and compiles them.

`load_profile_json` parses a profile; `profile` gives a shipped one, and its `expand` the same kind of object.
`oci_json`, `gvisor_json` and `compile_profile` make artifacts of it. `resolve` computes an engine's filter
for one machine, and `decide` evaluates that filter. The linter is in `lint`, the question of the command line
in `command`. `sandwright.evaluate.bpf` checks compiled programs independently.
"""

from sandwright.seccomp.bpf import compile_filter, compile_profile
from sandwright.seccomp.catalogue import profile, profiles
from sandwright.seccomp.decide import SeccompCall, SeccompDecision, decide, decide_by_name
from sandwright.seccomp.document import load_profile_json
from sandwright.seccomp.groups import CatalogueProfile
from sandwright.seccomp.model import SeccompProfile
from sandwright.seccomp.oci import gvisor_json, oci_json
from sandwright.seccomp.resolve import resolve

__all__ = [
    "CatalogueProfile",
    "SeccompCall",
    "SeccompDecision",
    "SeccompProfile",
    "compile_filter",
    "compile_profile",
    "decide",
    "decide_by_name",
    "gvisor_json",
    "load_profile_json",
    "oci_json",
    "profile",
    "profiles",
    "resolve",
]
