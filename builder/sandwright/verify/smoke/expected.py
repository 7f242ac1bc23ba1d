"""The expected observations of an image, determined before anything is started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ImageProgram:
    """A program of the image, its expected status, and the text that its standard output must contain."""

    name: str
    argv: tuple[str, ...]
    status: int = 0
    prints: str | None = None


@dataclass(frozen=True)
class Outside:
    """Facts outside of the sandbox: the host's kernel release, and the link of its mount namespace."""

    kernel: str
    mount_namespace: str


@dataclass(frozen=True)
class GuestExpectation:
    """The expected observations of a start of an image.

    `user` is the name that the image's passwd has for `uid`, None when it has none. `groups` are the
    supplementary ones; some may lack where `groups_may_lack`, since only root can give them. `environment`
    must be there; more may be. With `authorities`, many certificate authorities must be trusted. `read_only`:
    the root file system is.
    """

    platform: str
    uid: int
    gid: int
    outside: Outside
    groups: frozenset[int] = frozenset()
    groups_may_lack: bool = False
    user: str | None = None
    read_only: bool = True
    environment: Mapping[str, str] = field(default_factory=dict)
    programs: tuple[ImageProgram, ...] = ()
    authorities: bool = False
