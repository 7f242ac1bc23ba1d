"""Settings that keep a normal user from creating user namespaces, and the commands that change them."""

from __future__ import annotations

from sandwright.host import MachineFacts
from sandwright.methods.contract import Code

_SWITCHES = "user.max_user_namespaces, kernel.unprivileged_userns_clone"
_APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
_PROFILE = "run it as root, or load an AppArmor profile that allows it `userns`"


def namespace_obstacle(host: MachineFacts, *, profile: str = _PROFILE) -> tuple[Code, str, str] | None:
    """A code, a message and a remedy; None where settings allow this user user namespaces.

    `profile` is the remedy where AppArmor restricts them.
    """
    if host.apparmor_restricts_user_namespaces and not host.is_root:
        return (
            "namespaces-restricted",
            f"user namespaces are restricted by AppArmor (sysctl {_APPARMOR})",
            profile,
        )
    if not host.user_namespaces:
        message = f"user namespaces are switched off (sysctl {_SWITCHES})"
        return "namespaces-off", message, f"sudo sysctl -w {_switch(host)}"
    return None


def _switch(host: MachineFacts) -> str:
    """The setting that enables user namespaces; the second one is that of older Debian kernels."""
    return (
        "user.max_user_namespaces=10000"
        if not host.max_user_namespaces
        else "kernel.unprivileged_userns_clone=1"
    )
