"""The environment variables of sandwright: those that a person may set, and names of our own parts.

docs/commands.md has the first table; `tests/project/test_environment.py` finds every name that is in neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class EnvironmentVariable:
    """A public variable and its reader: the command, launchers, an image, the build, programs inside."""

    name: str
    reader: Literal[
        "sandwright", "rendered launchers", "images", "builds of the package", "programs in a sandbox"
    ]
    about: str


BUILD = EnvironmentVariable(
    "SANDWRIGHT_BUILD",
    "sandwright",
    "directory with built images (default: `build`; for a wheel `~/.local/share/sandwright`)",
)
CACHE = EnvironmentVariable(
    "SANDWRIGHT_CACHE", "sandwright", "cache of downloads and builds (default: `$XDG_CACHE_HOME/sandwright`)"
)
KEY_PASSWORD = EnvironmentVariable(
    "SANDWRIGHT_KEY_PASSWORD", "sandwright", "password of an encrypted `--key`"
)
MIRROR = EnvironmentVariable(
    "SANDWRIGHT_MIRROR", "sandwright", "mirror of packages (default: that of apt's configuration)"
)
PROJECT_REGISTRY = EnvironmentVariable(
    "SANDWRIGHT_PROJECT_REGISTRY",
    "sandwright",
    "registry through which a project is transferred to a cluster",
)
TELEMETRY = EnvironmentVariable(
    "SANDWRIGHT_TELEMETRY", "sandwright", "file for events of sessions (as `run --telemetry`)"
)
TOKEN_SERVERS = EnvironmentVariable(
    "SANDWRIGHT_TOKEN_SERVERS",
    "sandwright",
    "additional hosts to which a registry's credentials may be sent, comma-separated",
)
TRUST = EnvironmentVariable(
    "SANDWRIGHT_TRUST",
    "sandwright",
    "approval: a digest that `sandwright trust` shows, or 1 for every policy",
)
ROOTFS = EnvironmentVariable(
    "SANDWRIGHT_ROOTFS", "rendered launchers", "directory with the unpacked image of the policy"
)
MACHINE = EnvironmentVariable(
    "SANDWRIGHT_MACHINE", "rendered launchers", "directory with the saved machine, for method `vm` with QEMU"
)
NETWORK = EnvironmentVariable(
    "SANDWRIGHT_NETWORK",
    "rendered launchers",
    "engine network that the proxy joins in addition to the internal one",
)
RUNSC_LOG = EnvironmentVariable(
    "SANDWRIGHT_RUNSC_LOG",
    "rendered launchers",
    "directory for the logs of runsc, for gVisor in an engine",
)
POLL = EnvironmentVariable(
    "SANDWRIGHT_POLL", "rendered launchers", "seconds between two queries of a Job (default: 1)"
)
SESSION = EnvironmentVariable(
    "SANDWRIGHT_SESSION",
    "rendered launchers",
    "ID of the session: label of its containers, and marker of its processes",
)
CIDFILE = EnvironmentVariable(
    "SANDWRIGHT_CIDFILE", "rendered launchers", "file for the container's ID (shell launchers)"
)
SHIMS = EnvironmentVariable(
    "SANDWRIGHT_SHIMS", "rendered launchers", "directory of a running bridge (shell launchers)"
)
PROXY_PORT = EnvironmentVariable(
    "SANDWRIGHT_PROXY_PORT", "rendered launchers", "port of the running proxy, for method `seatbelt`"
)
USER = EnvironmentVariable(
    "SANDWRIGHT_USER", "images", "UID:GID to which a container that starts as root switches"
)
WHEEL = EnvironmentVariable(
    "SANDWRIGHT_WHEEL", "builds of the package", "platform of the wheel, such as linux/arm64, or `any`"
)
INSIDE = EnvironmentVariable(
    "SANDWRIGHT_INSIDE", "programs in a sandbox", "1 in every sandbox; set by the built-in policy"
)

VARIABLES = (
    *(BUILD, CACHE, KEY_PASSWORD, MIRROR, PROJECT_REGISTRY, TELEMETRY, TOKEN_SERVERS, TRUST),
    *(ROOTFS, MACHINE, NETWORK, RUNSC_LOG, POLL, SESSION, CIDFILE, SHIMS, PROXY_PORT),
    *(USER, WHEEL, INSIDE),
)

INTERNAL = {
    "SANDWRIGHT_BRIDGE": "marks the processes of a bridge, to find them when it is gone",
    "SANDWRIGHT_USERNAME": "a login for Git's credential helper, in no argument that other users see",
    "SANDWRIGHT_PASSWORD": "the same",
    "SANDWRIGHT_PASSED": "between programs of the image gvisor",
    "SANDWRIGHT_FLAGS": "the same",
    "SANDWRIGHT_PRIVATE": "the same",
    "SANDWRIGHT_JOIN": "the same",
    "SANDWRIGHT_TERMINAL": "the same",
    "SANDWRIGHT_CANARY": "planted by `verify`: it must not arrive inside",
    "SANDWRIGHT_STRANGER": "planted by `diff`, likewise",
    "SANDWRIGHT_SUBJECT": "marks the processes of a sandbox that `verify-foreign` starts",
    "SANDWRIGHT_SMOKE_PLANTED": "planted by smoke tests, likewise",
}
"""Internal variables, each with the reason why it is a variable. Users do not set them."""


def executable_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables without an entry that has no name: a caller can pass `=x`, and os.execve refuses it."""
    return {name: value for name, value in environ.items() if name}
