"""What a policy's proxies have in common: what need not be found out again at each start."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class SquidAccount:
    """Whom squid runs as, when it is another than the caller."""

    uid: int
    gid: int


@dataclass(frozen=True)
class ProxyPlan:
    """A proxy that can be started, and that the render cache keeps.

    `configuration` is squid's, with what `sandwright.render.proxyfacts` names in it; `pages` are what it
    answers, by name. `command` are the words that start squid restricted (`launcher.restrict`), with what
    `sandwright.render.proxyfacts` names in them; `account` who it is then, `seccomp` its filter in
    hexadecimal.
    """

    configuration: str
    pages: Mapping[str, str]
    command: tuple[str, ...]
    account: SquidAccount | None
    hosts_file: str | None = None
    seccomp: str = ""
