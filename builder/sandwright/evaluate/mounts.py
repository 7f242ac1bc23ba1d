"""Answers about a mount plan: is this path readable or writable inside, and because of which mount.

It looks only at the mounts, as the kernel would, and does not know their policy: each later mount hides all
paths at and below its target.
"""

from __future__ import annotations

from typing import NamedTuple

from sandwright.errors import UsageError
from sandwright.nested import reversed_components
from sandwright.policy.facts import HostFacts
from sandwright.policy.paths import MAX_LINKS, same_name
from sandwright.policy.tree import PathTree
from sandwright.render.mounts import Mount, MountPlan


class MountAccess(NamedTuple):
    """The access of programs inside to a path.

    `path` is the path inside after all links. `mount` is the deciding mount, None for the image's own files.
    `because` is the reason in words.
    """

    path: str
    readable: bool
    writable: bool
    mount: Mount | None
    because: str


class Mounts:
    """A plan's mounts, made over one host."""

    def __init__(self, plan: MountPlan, facts: HostFacts) -> None:
        """`facts` hold the targets of the host's links; a path that is not in them is not a link."""
        self._plan = plan
        self._facts = facts
        self._tree: PathTree[tuple[int, Mount]] = PathTree(same_name(facts))
        for index, mount in enumerate(plan.mounts):
            self._tree.add(mount.target, (index, mount))
        self._governing: dict[str, Mount | None] = {}
        self._links: dict[str, str | None] = {}
        self._directories: dict[str, tuple[str, int] | None] = {}
        self._answers: dict[str, MountAccess] = {}

    def access(self, path: str) -> MountAccess:
        """The access to an absolute path. Raise UsageError for a relative one."""
        if not path.startswith("/") or "\0" in path:
            raise UsageError(f"{path!r} is no absolute path")
        if path not in self._answers:
            self._answers[path] = self._decide_access(path)
        return self._answers[path]

    def _decide_access(self, path: str) -> MountAccess:
        found = self._resolve_links(path)
        if found is None:
            return MountAccess(
                path, readable=False, writable=False, mount=None, because="its links form a loop"
            )
        mount = self.governing(found)
        if mount is None:
            return MountAccess(
                found, readable=True, writable=False, mount=None, because="it is the image's own"
            )
        readable, because = self._seen(found, mount)
        return MountAccess(found, readable, readable and mount.writable, mount, because)

    def governing(self, path: str) -> Mount | None:
        """The last mount that was made at a path or above it; None where an image's own files are."""
        if path not in self._governing:
            self._governing[path] = self._last_mount(path)
        return self._governing[path]

    def _last_mount(self, path: str) -> Mount | None:
        last: tuple[int, Mount] | None = None
        for _, mounts in self._tree.prefixes(path):
            for each in mounts:
                last = each if last is None or each[0] > last[0] else last
        return last[1] if last else None

    def is_target(self, path: str) -> bool:
        """Whether something is mounted at exactly this path."""
        return bool(self._tree.at(path))

    def hidden(self) -> tuple[Mount, ...]:
        """The mounts that a later one hides: none of them has any effect."""
        return tuple(
            mount
            for index, mount in enumerate(self._plan.mounts)
            if any(later > index for _, mounts in self._tree.prefixes(mount.target) for later, _ in mounts)
        )

    def _seen(self, path: str, mount: Mount) -> tuple[bool, str]:
        """Whether the mount that governs a path shows it, and why."""
        match mount.kind:
            case "bind" if path != mount.target and self._is_file(mount):
                return False, f"{mount.target} is a file, and a mount point, which nothing replaces"
            case "bind":
                right = "writable" if mount.writable else "read-only"
                return True, f"the host's {_host_path_of(path, mount)} is bound there, {right}"
            case "mask":
                return False, f"{mount.target} is hidden by an empty mount"
            case "tmpfs" if not mount.writable:
                return False, f"only mounts are seen below {mount.target}, and none shows this"
            case _:
                return True, f"{mount.target} is the sandbox's own"

    def _is_file(self, mount: Mount) -> bool:
        return self._facts.kind(mount.source) in ("file", "fifo", "socket", "device")

    def _resolve_links(self, path: str) -> str | None:
        """Resolve the links of a path inside; None where they form a loop."""
        above, _, name = path.rpartition("/")
        if name in ("", ".", ".."):
            found = self._follow_inside(path, ("", 0))
        else:
            if above not in self._directories:
                self._directories[above] = self._follow_inside(above, ("", 0))
            start = self._directories[above]
            found = start and self._follow_inside(name, start)
        return found and (found[0] or "/")

    def _follow_inside(self, rest: str, start: tuple[str, int]) -> tuple[str, int] | None:
        """Follow the rest of a path from a canonical directory, and count the links on the whole way."""
        pending = reversed_components(rest)
        current, links = start
        while pending:
            part = pending.pop()
            if part == "..":
                current = current.rpartition("/")[0]
                continue
            text = self._link_at(f"{current}/{part}")
            if text is None:
                current = f"{current}/{part}"
                continue
            links += 1
            if links > MAX_LINKS:
                return None
            pending += reversed_components(text)
            current = "" if text.startswith("/") else current
        return current, links

    def _link_at(self, path: str) -> str | None:
        """The text of the link that is seen at a path inside; kept, as each path has its directories."""
        if path not in self._links:
            self._links[path] = self._link_text(path)
        return self._links[path]

    def _link_text(self, path: str) -> str | None:
        mount = self.governing(path)
        if mount is None:
            return None
        if mount.kind == "symlink" and mount.target == path:
            return mount.source
        return self._facts.link(_host_path_of(path, mount)) if mount.kind == "bind" else None


def _host_path_of(path: str, mount: Mount) -> str:
    rest = path if mount.target == "/" else path[len(mount.target) :]
    return f"{mount.source.rstrip('/')}{rest}" or "/"
