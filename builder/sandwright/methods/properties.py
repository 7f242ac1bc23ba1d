"""The properties of a method, by which other rooms decide: none of them knows a method by its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple


class Answers(NamedTuple):
    """The answers that show a claim of `verify`, between blanks, and why this method gives others."""

    answers: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Properties:
    """What a method is, as far as others have to know. The defaults are those of the plainest method."""

    root: Literal["host", "image"] = "host"
    """Whose files are at the root inside."""

    needs_image: bool = False
    """It runs an image that has to be built or pulled first."""

    system: Literal["linux", "darwin", "any"] = "linux"
    """Whose system calls are made inside."""

    own_kernel: bool = False
    """Another kernel than the host's answers inside."""

    own_user_namespace: bool = False
    """The command is in a user namespace whose mounts we choose: none honours set-user-id."""

    remote: bool = False
    """It runs the sandbox on another machine with the user's credentials, so an unapproved policy may not
    choose it."""

    copies_project: str = ""
    """Where it runs elsewhere, and of the host only the project travels there and back: the variable that
    says which way. Without a value nothing travels."""

    engine: bool = False
    """Its launcher is a client of the container engine of its name."""

    outer_container: bool = False
    """A policy's `gvisor.engine` may put it into a container of an engine."""

    own_account: bool = False
    """The command runs as an account of the project's own."""

    unpacked_image: bool = False
    """It runs on the root that an image of ours is unpacked to, by the image's digest."""

    proxy: Literal["session", "launcher"] = "session"
    """Who starts the proxy of a filtered network: the session, or the launcher beside the sandbox."""

    shims: bool = False
    """Its launcher brings the shims in, and a session has a bridge."""

    placeholders: bool = False
    """Its mounts need something to lie on, which the launcher puts into the project for a run."""

    records: bool = False
    """Its launcher can record what programs inside ask for (`learn`)."""

    verifiable: bool = False
    """`verify` can prove it."""

    simulated_by: str = ""
    """The artifact that the SBPL evaluator answers for where this system is not the method's."""

    foreign_paths: str = ""
    """What to say where it is rendered for the paths of another system, which is for a look only."""

    proposed: Mapping[str, int] = field(default_factory=dict)
    """By system: its place among the methods that `init` tries."""

    isolation_layers: tuple[str, ...] = ()
    """What stands between the command and the user's files, outermost last; each is one more to get past."""

    kernel_exploit_impact: str = ""
    """What a bug of a kernel, in what the command may call, would open."""

    last_resort: bool = False
    """It lacks what any policy asks for: only `init` tries it, last, and proposes to accept that."""
