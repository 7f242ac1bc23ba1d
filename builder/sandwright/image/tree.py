"""An image's file tree in memory: the metadata of each path, and which package it is from.

Only the content of a few selected files is kept. Paths are as in `TarEntry`: relative,
normalised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sandwright.errors import BuildError
from sandwright.rootfs.elf import Elf
from sandwright.rootfs.tar.entry import EntryKind, TarEntry, show
from sandwright.rootfs.unpacking.steps import LONGEST

MOST_LINKS = 40
"""Links in one path before the kernel gives up (MAXSYMLINKS)."""

BASE = "base-files"
"""The package that wins where packages disagree on a directory: it owns the base tree."""

_SHOWN = 10


@dataclass(slots=True)
class FileNode:
    """The metadata of a path. `owner` names its source: a package, or a step of ours."""

    kind: EntryKind
    owner: str
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    link: bytes = b""
    implied: bool = False

    @classmethod
    def of(cls, entry: TarEntry, owner: str) -> FileNode:
        """The node of an entry."""
        return cls(entry.kind, owner, entry.mode, entry.uid, entry.gid, entry.mtime_ns, entry.link)

    def same_directory(self, other: FileNode) -> bool:
        """Whether two sources of a directory agree on its mode and owner."""
        return (self.mode, self.uid, self.gid) == (other.mode, other.uid, other.gid)


@dataclass
class PackageContents:
    """The nodes of one source, and its selected contents.

    `contents` holds whole files, `elves` the ELF headers of libraries, `control` the files of a package's
    control archive. For apk's database, `checksum` is that of a package, and `sums` has the SHA-1 of its
    files and of the targets of its links.
    """

    owner: str
    nodes: dict[bytes, FileNode] = field(default_factory=dict)
    contents: dict[bytes, bytes] = field(default_factory=dict)
    elves: dict[bytes, Elf] = field(default_factory=dict)
    control: Mapping[str, bytes] = field(default_factory=dict)
    checksum: str = ""
    sums: dict[bytes, bytes] = field(default_factory=dict)


class FileTree:
    """A file tree that resolves paths. It never looks outside of itself."""

    def __init__(self, nodes: Mapping[bytes, FileNode] | None = None) -> None:
        self.nodes: dict[bytes, FileNode] = dict(nodes or {})
        self.kept: dict[bytes, bytes] = {}
        self.elves: dict[bytes, Elf] = {}
        self._children: dict[bytes, dict[bytes, None]] = {}
        for path in self.nodes:
            self._enter(path)

    def add(self, path: bytes, node: FileNode) -> None:
        """Put a node at a path, replacing an earlier one."""
        if path not in self.nodes:
            self._enter(path)
        self.nodes[path] = node

    def discard(self, path: bytes) -> None:
        """Remove a path and everything below it, if it exists."""
        if path:
            parent, _, name = path.rpartition(b"/")
            self._children.get(parent, {}).pop(name, None)
        ahead = [path]
        while ahead:
            at = ahead.pop()
            ahead += (at + b"/" + name if at else name for name in self._children.pop(at, ()))
            for held in (self.nodes, self.kept, self.elves):
                held.pop(at, None)

    def get(self, path: bytes) -> FileNode | None:
        """The node at exactly that path, links not followed."""
        return self.nodes.get(path)

    def names(self, directory: bytes) -> Sequence[bytes]:
        """The names in a directory, sorted; none when it doesn't exist."""
        real = self.resolve(directory)
        return sorted(self._children.get(real, ())) if real is not None else ()

    def is_link(self, path: bytes) -> bool:
        """Whether the last component is a symbolic link."""
        parent, _, name = path.rpartition(b"/")
        real = self.resolve(parent)
        node = None if real is None else self.nodes.get(real + b"/" + name if real else name)
        return node is not None and node.kind is EntryKind.SYMLINK

    def resolve(self, path: bytes) -> bytes | None:
        """Resolve a path and every link in it; None where it leads nowhere. `..` stops at the root.

        A path of more than `LONGEST` steps leads nowhere, too.
        """
        ahead = list(reversed(path.split(b"/")))
        at = b""
        links = steps = 0
        while ahead:
            name = ahead.pop()
            steps += 1
            if name == b"..":
                at = at.rpartition(b"/")[0]
            if name in (b"", b".", b".."):
                continue
            here = at + b"/" + name if at else name
            node = self.nodes.get(here)
            if node is None or (ahead and node.kind not in (EntryKind.DIRECTORY, EntryKind.SYMLINK)):
                return None
            if node.kind is not EntryKind.SYMLINK:
                at = here
                continue
            links += 1
            if links > MOST_LINKS or steps > LONGEST:
                return None
            at = b"" if node.link.startswith(b"/") else at
            ahead.extend(reversed(node.link.split(b"/")))
        return at

    def content(self, path: bytes) -> bytes | None:
        """The content of a selected file, links followed; None when it was not kept."""
        real = self.resolve(path)
        return None if real is None else self.kept.get(real)

    def _enter(self, path: bytes) -> None:
        if path:
            parent, _, name = path.rpartition(b"/")
            self._children.setdefault(parent, {})[name] = None


def merge(sources: Iterable[PackageContents]) -> FileTree:
    """Merge sources into one tree. For directories, earlier sources win.

    Raise BuildError, naming paths and sources, when two bring the same path and not both a directory, or when
    a path leads through something that isn't a directory.
    """
    tree = FileTree()
    problems: list[str] = []
    for source in sorted(sources, key=lambda each: each.owner != BASE):
        for path, node in source.nodes.items():
            before = tree.get(path)
            if before is None or (before.implied and node.kind is EntryKind.DIRECTORY):
                tree.add(path, node)
            elif before.kind is not EntryKind.DIRECTORY or node.kind is not EntryKind.DIRECTORY:
                both = (f"a {each.kind.value} of {each.owner}" for each in (before, node))
                problems.append(f"{show(path)}: {', '.join(both)}")
        tree.kept.update(source.contents)
        tree.elves.update(source.elves)
    problems += _through_files(tree)
    if problems:
        more = f"\n  and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise BuildError("packages are in each other's way:\n  " + "\n  ".join(problems[:_SHOWN]) + more)
    return tree


def unsettled(tree: FileTree, layers: Iterable[Mapping[bytes, FileNode]]) -> list[bytes]:
    """The directories, sorted, whose metadata in a layer differ from the tree: the top layer repeats them."""
    return sorted(
        {
            path
            for directories in layers
            for path, node in directories.items()
            if not node.same_directory(tree.nodes[path])
        }
    )


def _through_files(tree: FileTree) -> Iterator[str]:
    """Faults of paths whose parent is not a directory: a link there would lead the file elsewhere."""
    for path, node in tree.nodes.items():
        parent = tree.get(path.rpartition(b"/")[0]) if b"/" in path else None
        if parent is not None and parent.kind is not EntryKind.DIRECTORY:
            above = show(path.rpartition(b"/")[0])
            yield f"{show(path)} of {node.owner} lies below {above}, a {parent.kind.value} of {parent.owner}"
