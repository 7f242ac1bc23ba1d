"""crun, which refuses hybrid cgroups (version 1.8.1: "cgroups in hybrid mode not supported").

Where both hierarchies are mounted it is started in a separate mount namespace without version 2; the
container then has version 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sandwright.host import MachineFacts
from sandwright.runtime.contract import Variant
from sandwright.runtime.oci import ROOTLESS, OciRuntime, needs_emulator, plain_words

_WITHOUT_CGROUP2 = "in a mount namespace without cgroup2, since it refuses hybrid cgroups"
_UNIFIED = Path("/sys/fs/cgroup/unified")
"""The mount point of the second version in systemd's hybrid layout, and in its copies."""

_SCRIPT = 'umount "$1" && shift && exec "$@"'


def _crun_variants(host: MachineFacts) -> Sequence[Variant]:
    if not host.is_root:
        return (ROOTLESS,)
    return (Variant(_WITHOUT_CGROUP2) if host.cgroups == "hybrid" else Variant(),)


def _wrap(variant: Variant, words: Sequence[str]) -> Sequence[str]:
    if variant.note != _WITHOUT_CGROUP2:
        return plain_words(variant, words)
    own_mounts = ("unshare", "--mount", "--propagation", "private")
    return (*own_mounts, "sh", "-c", _SCRIPT, "sh", str(_UNIFIED), *words)


CRUN = OciRuntime("crun", _crun_variants, _wrap, needs_emulator)
