"""runsc, gVisor's runtime.

Which platforms a release knows changes (systrap since 2023; ptrace leaving), and the KVM platform hangs in
nested virtual machines, so each is tried with a time limit and KVM comes last. A sandbox needs no cgroup to
start.
"""

from __future__ import annotations

from collections.abc import Sequence

from sandwright.host import MachineFacts
from sandwright.runtime.bundles import Config
from sandwright.runtime.contract import Variant
from sandwright.runtime.oci import OciRuntime, plain_words

_PLATFORMS = ("systrap", "ptrace", "kvm")


def _runsc_variants(host: MachineFacts) -> Sequence[Variant]:
    rootless = () if host.is_root else ("--rootless",)
    return [
        Variant(
            f"with platform {platform}, without network, ignoring cgroups",
            (*rootless, f"--platform={platform}", "--network=none", "--ignore-cgroups"),
        )
        for platform in _PLATFORMS
    ]


def _obstacle(host: MachineFacts, platform: str) -> str:
    if host.os != "linux":
        return f"it runs on Linux only; this is {host.os}"
    if platform != host.platform:
        # Its kernel loads programs itself and has no binfmt_misc of the host's.
        return f"gVisor runs only programs of this machine's own architecture, {host.architecture}"
    return ""


def without_user_namespace(variant: Variant, config: Config) -> Config:
    """A configuration for `--rootless`, which makes the user namespace itself and can't enter another one."""
    if "--rootless" not in variant.options:
        return config
    linux = {key: value for key, value in config["linux"].items() if not key.endswith("idMappings")}
    linux["namespaces"] = [each for each in linux["namespaces"] if each["type"] != "user"]
    return {**config, "linux": linux}


RUNSC = OciRuntime("runsc", _runsc_variants, plain_words, _obstacle, without_user_namespace)
