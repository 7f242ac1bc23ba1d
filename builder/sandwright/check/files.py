"""Audits the merged files of an image's layers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sandwright.check.finding import ImageFinding
from sandwright.image.tree import FileTree
from sandwright.release.contents import ImageContents
from sandwright.rootfs.elf import Elf
from sandwright.rootfs.tar.entry import EntryKind, show

PASSWD, GROUP, SHADOW = b"etc/passwd", b"etc/group", b"etc/shadow"
_ACCOUNT_FILES = (PASSWD, GROUP, SHADOW)
_OS_RELEASE = (b"etc/os-release", b"usr/lib/os-release")
_WRITTEN_BY_RUNTIMES = (b"etc/resolv.conf", b"etc/hosts", b"etc/hostname")
_TEMPORARY = (b"tmp", b"var/tmp")
_MERGED = (b"bin", b"sbin", b"lib")
_CACHES = (
    b"var/cache/apt/archives/", b"var/lib/apt/lists/", b"var/cache/apk/", b"var/cache/dnf/",
    b"var/cache/yum/", b"root/.cache/", b"root/.npm/",
)  # fmt: skip
_KEPT_IN_CACHES = (b"lock", b"partial", b".gitkeep")
_MACHINES = {"amd64": 62, "arm64": 183, "386": 3, "arm": 40, "riscv64": 243, "ppc64le": 21, "s390x": 22}
"""e_machine by Go's name of the architecture (gABI; image-spec config.md)."""

_NOBODY = 65534
_ID = re.compile("[0-9]{1,20}")
_SHADOW_MODE = 0o007
_ELSEWHERE, _LOCKED = "x", ("*", "!")
"""A password's place: it stands in shadow; there is none that fits."""


def needs_content(path: bytes) -> bool:
    """Whether the checks of this module need the content of a file."""
    return path in _ACCOUNT_FILES


@dataclass(frozen=True)
class AccountLine:
    """A line of passwd or group: its name and number."""

    name: str
    number: int
    password: str


def check_files(
    contents: ImageContents, elves: Mapping[bytes, Elf], architecture: str
) -> Iterator[ImageFinding]:
    """All findings of rules `files/…`. `elves`: the contents of ELF headers, by the layer's path."""
    tree = contents.tree
    yield from _check_merged_usr(tree)
    yield from _check_accounts(tree)
    yield from _check_owners(tree)
    yield from _places(contents)
    yield from _check_programs(contents, elves, architecture)


def _check_merged_usr(tree: FileTree) -> Iterator[ImageFinding]:
    there = [path for path in _MERGED if tree.get(path) is not None]
    links = [path for path in there if tree.is_link(path)]
    for path in there:
        if links and path not in links:
            yield ImageFinding(
                "files/merged-usr",
                show(path).strip("'"),
                f"is a directory, though {show(links[0])} is a link",
            )


def read_lines(raw: bytes, *, fields: int) -> tuple[list[AccountLine], list[int]]:
    """The lines of passwd (7 fields) or group (4), and the numbers of malformed ones."""
    lines, broken = [], []
    for number, line in enumerate(raw.decode("utf-8", "surrogateescape").split("\n"), 1):
        if not line.strip() or line[0] in "#+-":
            continue
        parts = line.split(":")
        if len(parts) != fields or not parts[0] or not _ID.fullmatch(parts[2]):
            broken.append(number)
            continue
        lines.append(AccountLine(parts[0], int(parts[2]), parts[1]))
    return lines, broken


def _check_accounts(tree: FileTree) -> Iterator[ImageFinding]:
    for path, fields in ((PASSWD, 7), (GROUP, 4)):
        where = path.decode()
        raw = tree.content(path)
        if raw is None:
            yield ImageFinding("files/accounts", where, "is not there")
            continue
        lines, broken = read_lines(raw, fields=fields)
        for number in broken:
            yield ImageFinding("files/accounts", where, f"line {number} is no line of it")
        for what, values in (
            ("name", [each.name for each in lines]),
            ("id", [str(each.number) for each in lines]),
        ):
            for value in sorted(each for each, times in Counter(values).items() if times > 1):
                yield ImageFinding("files/accounts", where, f"the {what} {value} is there twice")
        for line in lines:
            if path == PASSWD:
                yield from _password(where, line.name, line.password)
    raw = tree.content(SHADOW)
    for text in (raw or b"").decode("utf-8", "surrogateescape").splitlines():
        name, *rest = text.split(":")
        if name and rest:
            yield from _password("etc/shadow", name, rest[0])
    node = tree.get(SHADOW)
    if node is not None and node.mode & _SHADOW_MODE:
        yield ImageFinding("files/shadow", "etc/shadow", f"can be read by everybody (mode {node.mode:04o})")


def _password(where: str, name: str, password: str) -> Iterator[ImageFinding]:
    """Findings on the second field of passwd(5) or shadow(5)."""
    if not password:
        yield ImageFinding("files/no-password", where, f"{name} has no password, and needs none")
    elif password != _ELSEWHERE and not password.startswith(_LOCKED):
        yield ImageFinding("files/password", where, f"{name} has a password")


def _check_owners(tree: FileTree) -> Iterator[ImageFinding]:
    ids: dict[str, set[int]] = {}
    for what, path, fields in (("user", PASSWD, 7), ("group", GROUP, 4)):
        lines, _ = read_lines(tree.content(path) or b"", fields=fields)
        ids[what] = {0, _NOBODY, *(each.number for each in lines)}
    strangers: dict[tuple[str, int], list[bytes]] = {}
    for path, node in sorted(tree.nodes.items()):
        for what, number in (("user", node.uid), ("group", node.gid)):
            if number not in ids[what]:
                strangers.setdefault((what, number), []).append(path)
    for (what, number), paths in strangers.items():
        more = f", and {len(paths) - 1} more" if len(paths) > 1 else ""
        yield ImageFinding(
            "files/owner", show(paths[0]).strip("'"), f"belongs to {what} {number}, which is unknown{more}"
        )


def _places(contents: ImageContents) -> Iterator[ImageFinding]:
    tree = contents.tree
    for path in _TEMPORARY:
        node = tree.get(path)
        real = None if node is None else tree.get(tree.resolve(path) or b"")
        if node is None or real is None:
            if path == b"tmp":
                yield ImageFinding("files/temporary", "tmp", "is not there")
        elif real.kind is not EntryKind.DIRECTORY or real.mode != 0o1777:
            yield ImageFinding(
                "files/temporary", path.decode(), f"is a {real.kind.value} with mode {real.mode:04o}"
            )
    if not any(tree.resolve(path) is not None for path in _OS_RELEASE):
        yield ImageFinding("files/os-release", "etc/os-release", "is not there")
    for path in _WRITTEN_BY_RUNTIMES:
        file = contents.files.get(path)
        if file is not None and file.kind is EntryKind.FILE and file.size:
            yield ImageFinding(
                "files/of-the-host",
                path.decode(),
                f"has {file.size} bytes, perhaps of the machine that built it",
            )
    for folder in _CACHES:
        remaining = [
            path
            for path, file in contents.files.items()
            if path.startswith(folder)
            and file.kind is EntryKind.FILE
            and path.rpartition(b"/")[2] not in _KEPT_IN_CACHES
        ]
        if remaining:
            size = sum(contents.files[path].size for path in remaining)
            yield ImageFinding(
                "files/cache", folder.decode(), f"has {len(remaining)} files with {size} bytes"
            )


def _check_programs(
    contents: ImageContents, elves: Mapping[bytes, Elf], architecture: str
) -> Iterator[ImageFinding]:
    names = {path.rpartition(b"/")[2] for path in contents.files}
    here = {
        real: elf
        for path, elf in elves.items()
        if (real := contents.tree.resolve(path)) in contents.files and real
    }
    missing: dict[bytes, list[bytes]] = {}
    for path, elf in sorted(here.items()):
        where = show(path).strip("'")
        machine = elf.target[2]
        if architecture in _MACHINES and machine != _MACHINES[architecture]:
            yield ImageFinding(
                "files/architecture", where, f"is for ELF machine {machine}; the image is for {architecture}"
            )
            continue
        if elf.interpreter and contents.tree.resolve(elf.interpreter.lstrip(b"/")) is None:
            yield ImageFinding(
                "files/interpreter", where, f"needs {show(elf.interpreter)}, which is not there"
            )
        for name in elf.needed:
            if name.rpartition(b"/")[2] not in names:
                missing.setdefault(name, []).append(path)
    for name, paths in sorted(missing.items()):
        more = f", and {len(paths) - 1} more" if len(paths) > 1 else ""
        yield ImageFinding(
            "files/library", show(paths[0]).strip("'"), f"needs {show(name)}, which is nowhere{more}"
        )
