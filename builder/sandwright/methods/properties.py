"""The properties of a method. Other packages decide by these, never by the name of a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

ProxyStarter = Literal["session", "launcher"]


class Answers(NamedTuple):
    """Accepted answers of a probe, separated by blanks, and the reason for the difference."""

    answers: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Properties:
    """The properties of a method."""

    root: Literal["host", "image"] = "host"
    """The root file system of the sandbox: the host's or an image's."""

    needs_image: bool = False
    """An image must be built or pulled first."""

    system: Literal["linux", "darwin", "any"] = "linux"
    """The operating system whose system calls programs in the sandbox use."""

    own_kernel: bool = False
    """System calls are handled by another kernel than the host's."""

    own_user_namespace: bool = False
    """The command runs in a user namespace in which all mounts are `nosuid`."""

    remote: bool = False
    """The sandbox runs on another machine with the user's credentials, which needs approval of the policy."""

    copies_project: str = ""
    """For methods on another machine that copy the project there and back: the environment variable with the
    direction. Empty if nothing is copied."""

    engine: bool = False
    """The launcher is a client of the container engine with the method's name."""

    outer_container: bool = False
    """The policy key `gvisor.engine` can run the method in a container."""

    runs_elsewhere: bool = False
    """The command's processes are not below the launcher: a daemon starts them, or another machine."""

    own_account: bool = False
    """The command runs as a dedicated account of the project."""

    unpacked_image: bool = False
    """The root file system is an unpacked image, selected by its digest."""

    proxy: ProxyStarter = "session"
    """The component that starts the proxy for `network.mode: proxy`: the session or the launcher."""

    shims: bool = False
    """The launcher mounts shims, and a session starts the bridge."""

    exec_unsupported: str = "its launcher starts one command only"
    """The reason why a session takes no further commands (`exec`); empty if it does."""

    placeholders: bool = False
    """Mounts need mount points, which the launcher creates in the project for a run."""

    supervises_creation: bool = False
    """With Landlock, missing names need no placeholders, because the supervisor creates all others."""

    records: bool = False
    """The launcher can record accesses of programs (`learn`)."""

    verifiable: bool = False
    """`verify` can prove it."""

    simulated_by: str = ""
    """The artifact that the SBPL evaluator decides by on systems where the method does not run."""

    foreign_paths: str = ""
    """The warning if the method is rendered with paths of another system, for inspection only."""

    proposed: Mapping[str, int] = field(default_factory=dict)
    """The position among the methods that `init` tries, by operating system."""

    isolation_layers: tuple[str, ...] = ()
    """The barriers between the command and the user's files, outermost last."""

    kernel_exploit_impact: str = ""
    """The impact of a kernel bug that the command can reach."""

    last_resort: bool = False
    """The method lacks features that every policy needs. `init` tries it last and proposes to accept gaps."""
