"""A sandbox of mounts and namespaces as its artifacts describe it, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sandwright.evaluate.explain.isolation import Isolation
from sandwright.evaluate.explain.reading import ReadBack
from sandwright.evaluate.explain.verdict import BY_RUN, IS_SET, ArtifactPosition, Asked, MethodVerdict
from sandwright.evaluate.mounts import Mounts
from sandwright.policy.facts import HostFacts
from sandwright.policy.paths import ancestors, is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.values import covering_patterns
from sandwright.render.mounts import Mount, MountPlan, Root

if TYPE_CHECKING:  # it renders templates, whose engine takes 20 ms to import
    from sandwright.evaluate.explain.squid import Squid

Calls = Callable[[Asked, str], MethodVerdict]
"""Answers about a system call on an architecture (`amd64`, `arm64`)."""


NOT_STARTED = "the launcher does not start once it does"
"""The reason to deny a path that could be read if it existed."""

_OF_IMAGES = frozenset(("bin", "etc", "lib", "lib32", "lib64", "libx32", "sbin", "usr", "var"))
"""The directories that every image has at its root."""


@dataclass(frozen=True)
class Passing:
    """The variables that a launcher takes from its own environment: patterns, each with its line."""

    passed: Mapping[str, ArtifactPosition] = field(default_factory=dict)
    never: Mapping[str, ArtifactPosition] = field(default_factory=dict)

    def verdict(self, name: str) -> MethodVerdict:
        """Whether a variable of the host reaches the program."""
        for pattern in covering_patterns(self.never, name):
            because = f"{pattern} is never passed on"
            return MethodVerdict(allowed=False, because=because, position=self.never[pattern])
        for pattern in covering_patterns(self.passed, name):
            because = f"{pattern} is passed on"
            return MethodVerdict(allowed=True, because=because, position=self.passed[pattern])
        return MethodVerdict(allowed=False, because="no pattern passes it on")


@dataclass(frozen=True)
class Enclosure(ReadBack):
    """The sandbox that artifacts describe.

    `mounts` are in the order in which they are made, each with its place in an artifact. `network` is the
    position of the setting that chooses the sandbox's network, None for the host's. `environment` are the
    variables with values. `isolated` is its isolation. `absent` are paths whose existence keeps the launcher
    from starting. `proxied`: a session can bring in the way to a proxy. `localhost` are the ports of the
    host's loopback that the one inside leads to, `expose` those inside that the host's leads to. `sockets`:
    those of the host that are seen can be connected to, where `connects` is not None only these, as the
    launcher connects. `proxy` is that among the artifacts, None where a session starts one. `brought` are
    paths of the host that the method shows under every policy.
    """

    root: Root
    mounts: tuple[tuple[Mount, ArtifactPosition], ...]
    network: ArtifactPosition | None
    environment: Mapping[str, ArtifactPosition]
    passing: Passing
    calls: Calls
    isolated: Isolation
    absent: Mapping[str, ArtifactPosition] = field(default_factory=dict)
    proxied: bool = True
    localhost: Mapping[str, ArtifactPosition] = field(default_factory=dict)
    expose: Mapping[str, ArtifactPosition] = field(default_factory=dict)
    sockets: bool = True
    connects: Collection[str] | None = None
    proxy: Callable[[], Squid] | None = None
    brought: Collection[str] = ()
    _made: list[tuple[HostFacts, Mounts]] = field(default_factory=list, init=False, repr=False, compare=False)
    _places: dict[int, ArtifactPosition] = field(default_factory=dict, init=False, repr=False, compare=False)

    def answer(self, question: Asked, facts: HostFacts, arch: str) -> MethodVerdict:
        """Answer a question, on the host of `facts`."""
        match question.kind:
            case "read" | "write" | "exec":
                return self._decide_path(question, facts)
            case "connect":
                return (
                    self._decide_socket(question, facts, arch)
                    if question.path
                    else self._decide_host(question)
                )
            case "request":
                return self._decide_host(question)
            case "listen":
                return self._server(question)
            case "env":
                return self._decide_variable(question.name)
            case "tool":
                return MethodVerdict(allowed=None, because=BY_RUN)
            case "syscall":
                return self.calls(question, arch)

    def _decide_path(self, question: Asked, facts: HostFacts) -> MethodVerdict:
        mounts = self._on(facts)
        for link in question.links:
            if not self._shows(link, mounts):
                because = f"the link {link} is not seen inside"
                return MethodVerdict(allowed=False, because=because, target=link)
        access = mounts.access(question.path)
        if access.mount is None and question.image and question.kind != "write":
            return MethodVerdict(allowed=True, because="the image's own files are visible there")
        if access.mount is None:
            because = "the root is the image's, read-only: no file of the host appears there"
            return MethodVerdict(allowed=False, because=because)
        position = self._mount_position(access.mount)
        allowed = access.writable if question.kind == "write" else access.readable
        missing = allowed and question.kind != "write" and self._absent_at(access.path)
        if missing and facts.kind(missing) is None:
            because = f"{missing} does not exist, and {NOT_STARTED}"
            return MethodVerdict(
                allowed=False, because=because, position=self.absent[missing], target=missing
            )
        return MethodVerdict(allowed, access.because, position, access.mount.target)

    def can_move(self, path: str, facts: HostFacts) -> bool | None:
        """A mount point is not renamed, nor a path in a directory that can't be written."""
        mounts = self._on(facts)
        return mounts.access(path.rpartition("/")[0] or "/").writable and not mounts.is_target(path)

    def mount_over(self, path: str, facts: HostFacts) -> Mount | None:
        """The mount that decides on a path inside; None for a path among the image's own files."""
        return self._on(facts).access(path).mount

    def isolation(self) -> Isolation:
        """The isolation from the host."""
        return self.isolated

    def _absent_at(self, path: str) -> str:
        """The path of `absent` that this one is, or is in, the uppermost if there are several."""
        if not self.absent:
            return ""
        return next((each for each in reversed((path, *ancestors(path))) if each in self.absent), "")

    def _on(self, facts: HostFacts) -> Mounts:
        """The mounts on a host; made once, as questions come by the thousand."""
        if not self._made or self._made[0][0] is not facts:
            plan = MountPlan(self.root, tuple(mount for mount, _ in self.mounts), (), ())
            self._made[:] = [(facts, Mounts(plan, facts))]
        return self._made[0][1]

    def _shows(self, link: str, mounts: Mounts) -> bool:
        """Whether a link of the host is visible. Images have the same links in the system's directories."""
        mount = mounts.governing(link)
        if mount is None:
            return link.split("/")[1] in _OF_IMAGES
        return mount.kind not in ("tmpfs", "mask")

    def _mount_position(self, mount: Mount) -> ArtifactPosition:
        if not self._places:
            self._places.update((id(each), position) for each, position in self.mounts)
        return self._places[id(mount)]

    def _decide_socket(self, question: Asked, facts: HostFacts, arch: str) -> MethodVerdict:
        """A Unix socket: one has to be made, and the path to be seen."""
        made = self.calls(Asked("syscall", "socket", name="socket", arguments=(1, 1)), arch)
        if made.allowed is False:
            return MethodVerdict(
                allowed=False, because="no socket of AF_UNIX can be made", position=made.position
            )
        if not self.sockets:
            return MethodVerdict(allowed=False, because="no socket of the host is connected to")
        if self.connects is not None and question.path not in self.connects:
            because = "the launcher connects to sockets of the sandbox's own, and to those listed"
            return MethodVerdict(
                allowed=False, because=because, position=ArtifactPosition("launch.plan", "sockets.supervised")
            )
        seen = self._decide_path(question._replace(kind="read"), facts)
        if not seen.allowed:
            return seen
        return MethodVerdict(
            allowed=True, because="it is seen, and sockets can be made", position=seen.position
        )

    def _decide_host(self, question: Asked) -> MethodVerdict:
        if self.network is None:
            return MethodVerdict(allowed=True, because="its network leads out like the host's")
        if question.host == "localhost" and str(question.port) in self.localhost:
            because = "the sandbox's localhost leads to the host's on this port"
            return MethodVerdict(allowed=True, because=because, position=self.localhost[str(question.port)])
        if question.host == "localhost":
            because = "the sandbox has a separate localhost"
            return MethodVerdict(allowed=False, because=because, position=self.network)
        return MethodVerdict(
            allowed=False, because="a separate network without a route", position=self.network
        )

    def _server(self, question: Asked) -> MethodVerdict:
        """A server inside, as the host's localhost reaches it."""
        if self.network is None:
            return MethodVerdict(allowed=True, because="its network is the host's")
        position = self.expose.get(str(question.port))
        if position is not None:
            return MethodVerdict(allowed=True, because="the host's localhost leads inside", position=position)
        because = "the sandbox has a separate localhost"
        return MethodVerdict(allowed=False, because=because, position=self.network)

    def binds(self) -> list[tuple[Mount, ArtifactPosition]]:
        """The mounts of the host's paths, but for those under every policy.

        A path that is relative is of a file beside the artifact.
        """
        return [
            (mount, position)
            for mount, position in self.mounts
            if mount.kind == "bind" and mount.source[:1] == "/" and mount.source not in self.brought
        ]

    def passed(self) -> Collection[str]:
        """The variables that the launcher takes from its environment."""
        return self.passing.passed.keys()

    def through_proxy(self, host: str, port: int) -> MethodVerdict | None:
        """The answer of the proxy among the artifacts."""
        return self.proxy().verdict(host, port) if self.proxy else None

    def way_to_proxy(self) -> MethodVerdict:
        """Whether the proxy is reachable: a session brings a socket to it into the sandbox's network."""
        return MethodVerdict(
            self.proxied, "a separate network, from which only the proxy is reachable", self.network
        )

    def why_looser(self, policy: ResolvedPolicy, question: Asked) -> str:
        """The reason for more than the policy allows: runtimes mount a /sys, which no rule has to mention."""
        unruled = question.kind == "read" and not policy.filesystem.tree.deciding(question.path)
        if unruled and self.root == "image" and is_inside(question.path, "/sys"):
            return "the runtime brings /sys, read-only, without the parts that every sandbox hides"
        return ""

    def _decide_variable(self, name: str) -> MethodVerdict:
        if name in self.environment:
            position = self.environment[name]
            return MethodVerdict(allowed=True, because=IS_SET, position=position)
        return self.passing.verdict(name)
