"""bubblewrap's command line (bwrap(1)). This is the one place that spells its options."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self


class BwrapArguments:
    """The arguments, without the program's name. Mounts are made in the order in which they are added."""

    def __init__(self) -> None:
        """None yet."""
        self.words: list[str] = []

    def add(self, *words: str) -> Self:
        """Add words as they are."""
        self.words += words
        return self

    def unshare(self, *namespaces: str) -> Self:
        """Create namespaces: `all`, `user`, `pid`, `net`, …; `cgroup-try` where the kernel has it."""
        return self.add(*(f"--unshare-{each}" for each in namespaces))

    def supervise(self) -> Self:
        """End with bubblewrap's parent, and without a terminal to type into (CVE-2017-5226)."""
        return self.add("--die-with-parent", "--new-session")

    def drop_capabilities(self) -> Self:
        """Drop all capabilities."""
        return self.add("--cap-drop", "ALL")

    def add_capabilities(self, names: Iterable[str]) -> Self:
        """Keep capabilities in the user namespace."""
        return self.add(*(word for name in names for word in ("--cap-add", name)))

    def user(self, uid: int, gid: int) -> Self:
        """Set the user and group IDs inside."""
        return self.add("--uid", str(uid), "--gid", str(gid))

    def hostname(self, name: str) -> Self:
        """Set the host name inside."""
        return self.add("--hostname", name)

    def seccomp(self, descriptor: int) -> Self:
        """Load the seccomp filter from a descriptor."""
        return self.add("--seccomp", str(descriptor))

    def bind(self, source: str, target: str, *, writable: bool = False, optional: bool = False) -> Self:
        """Show a path of the host, with the mounts below it; with `optional` only if it exists."""
        name = "--bind" if writable else "--ro-bind"
        return self.add(f"{name}-try" if optional else name, source, target)

    def symlink(self, text: str, target: str) -> Self:
        """Make a symbolic link."""
        return self.add("--symlink", text, target)

    def tmpfs(self, target: str, *, mode: str = "", size: int | None = None) -> Self:
        """Mount an empty directory in memory."""
        sized = () if size is None else ("--size", str(size))
        return self._with_mode(mode, *sized, "--tmpfs", target)

    def directory(self, path: str, *, mode: str = "") -> Self:
        """Make a directory where there is none."""
        return self._with_mode(mode, "--dir", path)

    def file(self, descriptor: int, target: str, *, mode: str = "") -> Self:
        """Create a file from the content of a descriptor."""
        return self._with_mode(mode, "--file", str(descriptor), target)

    def proc(self, target: str) -> Self:
        """Mount a procfs of the sandbox's processes."""
        return self.add("--proc", target)

    def dev(self, target: str) -> Self:
        """Make a directory of harmless devices."""
        return self.add("--dev", target)

    def remount_read_only(self, path: str) -> Self:
        """Make a mount read-only, but not those below it."""
        return self.add("--remount-ro", path)

    def clear_environment(self) -> Self:
        """Unset all variables."""
        return self.add("--clearenv")

    def environment(self, items: Iterable[tuple[str, str]]) -> Self:
        """Set variables."""
        return self.add(*(word for name, value in items for word in ("--setenv", name, value)))

    def chdir(self, directory: str) -> Self:
        """Start in a directory."""
        return self.add("--chdir", directory)

    def command(self, argv: Sequence[str]) -> Self:
        """Add the command, which ends the arguments."""
        return self.add("--", *argv)

    def _with_mode(self, mode: str, *words: str) -> Self:
        return self.add(*(("--perms", mode) if mode else ()), *words)
