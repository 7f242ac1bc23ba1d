"""Compares structure tests with an image: files, content, licences and configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from sandwright.check.finding import ImageFinding
from sandwright.check.structure import (
    RULE,
    ContentTest,
    EnvVar,
    ExistenceTest,
    LicenseTest,
    MetadataTest,
    StructureTests,
    environment,
    expand_variables,
    relative,
)
from sandwright.errors import HostError
from sandwright.image.tree import FileNode, FileTree
from sandwright.release.contents import ImageContents
from sandwright.rootfs.images.source import Image
from sandwright.rootfs.tar.entry import EntryKind

_LETTERS = {
    EntryKind.DIRECTORY: "d",
    EntryKind.SYMLINK: "L",
    EntryKind.CHARACTER: "Dc",
    EntryKind.BLOCK: "D",
    EntryKind.FIFO: "p",
}
_WHO = {"owner": 0o100, "group": 0o010, "other": 0o001, "any": 0o111}
_ROOT = FileNode(EntryKind.DIRECTORY, "nobody", 0o755, 0, 0, 0, implied=True)
_DOCUMENTATION, _LICENCE = b"usr/share/doc", b"copyright"
_UNWANTED = (b"AGPL", b"WTFPL")
_LET_THROUGH = b"libgnutls30"


def check_structure(tests: StructureTests, image: Image, contents: ImageContents) -> Iterator[ImageFinding]:
    """Findings of rule `structure/test`: failed tests, apart from commands."""
    config = image.config.get("config") or {}
    variables = environment(config, tests.global_env_vars)
    for existence in tests.existence:
        yield from _existence(existence, contents.tree, variables)
    for content in tests.content:
        yield from _check_content(content, contents.tree)
    for licence in tests.licences:
        yield from _check_licences(licence, contents.tree)
    if tests.metadata is not None:
        yield from _check_metadata(tests.metadata, config)


def match_text(
    name: str, text: str, expected: Sequence[str], excluded: Sequence[str], what: str
) -> Iterator[ImageFinding]:
    """Findings for patterns of Go's package regexp that a text lacks or must not have."""
    search = _re2()
    for patterns, must_match in ((expected, True), (excluded, False)):
        for pattern in patterns:
            try:
                there = search(pattern, text)
            except ValueError as error:
                yield ImageFinding(RULE, name, f"'{pattern}' is no regular expression of Go: {error}")
                continue
            if there is not must_match:
                has = "has" if there else "doesn't have"
                yield ImageFinding(RULE, name, f"{what} {has} '{pattern}'")


@cache
def _re2() -> Callable[[str, str], bool]:
    """A search with google-re2, which takes time in proportion to the text. Raise HostError without it.

    The search raises ValueError for a pattern that RE2 refuses, with its reason.
    """
    try:
        import re2  # noqa: PLC0415 - an extra: no wheel for musl
    except ImportError:
        raise HostError(
            "structure tests with regular expressions need google-re2: "
            "pip install 'sandwright[structure-tests]'"
        ) from None
    options = re2.Options()
    options.log_errors = False

    def search(pattern: str, text: str) -> bool:
        try:
            return re2.compile(pattern, options).search(text) is not None
        except re2.error as error:
            raise ValueError(error.args[0].decode("utf-8", "replace")) from None

    return search


def _nameless(test: ExistenceTest | ContentTest) -> Iterator[ImageFinding]:
    if not test.name:
        yield ImageFinding(RULE, test.path, "the test has no name")
    if not test.path:
        yield ImageFinding(RULE, test.name, "the test has no path")


def _existence(test: ExistenceTest, tree: FileTree, variables: Mapping[str, str]) -> Iterator[ImageFinding]:
    if not test.name or not test.path:
        yield from _nameless(test)
        return
    path = expand_variables(test.path, variables)
    node = _node_at(tree, path)
    if (node is not None) != test.should_exist:
        yield ImageFinding(RULE, test.name, f"{path} is {'not ' if test.should_exist else ''}there")
    if node is None or not test.should_exist:
        return
    rights = file_mode(node)
    if test.permissions and test.permissions != rights:
        yield ImageFinding(RULE, test.name, f"{path} has {rights}, not {test.permissions}")
    for what, value, expected_id in (("user", node.uid, test.uid), ("group", node.gid, test.gid)):
        if expected_id not in (-1, value):
            yield ImageFinding(RULE, test.name, f"{path} belongs to {what} {value}, not {expected_id}")
    if test.is_executable_by and test.is_executable_by not in _WHO:
        letters = ", ".join(_WHO)
        yield ImageFinding(RULE, test.name, f"isExecutableBy: '{test.is_executable_by}' is none of {letters}")
    elif test.is_executable_by and not node.mode & _WHO[test.is_executable_by]:
        yield ImageFinding(RULE, test.name, f"{path} cannot be executed by {test.is_executable_by}")


def _node_at(tree: FileTree, path: str) -> FileNode | None:
    """The node at a path itself, links above it followed. There is always a root."""
    folder, _, name = relative(path).rpartition(b"/")
    if not name:
        return tree.get(b"") or _ROOT
    parent = tree.resolve(folder)
    return None if parent is None else tree.get(parent + b"/" + name if parent else name)


def file_mode(node: FileNode) -> str:
    """The kind and rights of a file as Go's os.FileMode writes them: `-rwxr-xr-x`, `dtrwxrwxrwx`."""
    special = "".join(letter for bit, letter in ((0o4000, "u"), (0o2000, "g")) if node.mode & bit)
    kind = _LETTERS.get(node.kind, "")
    kind = kind.removesuffix("c") + special + ("c" if kind.endswith("c") else "")
    kind += "t" if node.mode & 0o1000 else ""
    rights = zip(range(8, -1, -1), "rwx" * 3, strict=True)
    return (kind or "-") + "".join(letter if node.mode & 1 << bit else "-" for bit, letter in rights)


def _check_content(test: ContentTest, tree: FileTree) -> Iterator[ImageFinding]:
    if not test.name or not test.path:
        yield from _nameless(test)
        return
    raw = tree.content(relative(test.path))
    if raw is None:
        yield ImageFinding(RULE, test.name, f"{test.path} is no file")
        return
    yield from match_text(test.name, raw.decode("utf-8", "replace"), test.expected, test.excluded, test.path)


def _check_licences(test: LicenseTest, tree: FileTree) -> Iterator[ImageFinding]:
    paths = [relative(path) for path in test.files]
    if test.debian:
        folder = tree.resolve(_DOCUMENTATION)
        if folder is None:
            yield _licence_finding("/usr/share/doc is not there")
        before = len(paths)
        for name in tree.names(_DOCUMENTATION) if folder is not None else ():
            node = tree.get((folder or b"") + b"/" + name)
            if node is not None and node.kind is EntryKind.DIRECTORY and name != _LET_THROUGH:
                paths.append(b"/".join((_DOCUMENTATION, name, _LICENCE)))
        if folder is not None and len(paths) == before:
            yield _licence_finding("/usr/share/doc has no package's directory")
    for path in paths:
        raw, display_path = tree.content(path), "/" + path.decode("utf-8", "backslashreplace")
        if raw is None:
            yield _licence_finding(f"{display_path} is no file")
        for word in _UNWANTED if raw is not None else ():
            if word in (raw or b"").upper():
                yield _licence_finding(f"{display_path} has {word.decode()}")


def _licence_finding(message: str) -> ImageFinding:
    return ImageFinding(RULE, "licenseTests", message)


def _check_metadata(test: MetadataTest, config: Mapping[str, Any]) -> Iterator[ImageFinding]:
    variables = environment(config, ())
    yield from _check_values("variable", test.env_vars, variables)
    for each in test.unbound_env_vars:
        if each.key in variables:
            yield _metadatum(f"the variable {each.key} is set")
    yield from _check_values("label", test.labels, config.get("Labels") or {})
    ports = {port.partition("/")[0] for port in config.get("ExposedPorts") or ()}
    volumes = set(config.get("Volumes") or ())
    for what, present, wanted_there, wanted_gone in (
        ("port", ports, test.exposed_ports, test.unexposed_ports),
        ("volume", volumes, test.volumes, test.unmounted_volumes),
    ):
        yield from (
            _metadatum(f"the {what} {each} is not there") for each in wanted_there if each not in present
        )
        yield from (_metadatum(f"the {what} {each} is there") for each in wanted_gone if each in present)
    for key, value in (("Entrypoint", test.entrypoint), ("Cmd", test.cmd)):
        if value is not None and list(value) != list(config.get(key) or ()):
            yield _metadatum(f"{key} is {config.get(key) or []}, not {list(value)}")
    for key, word in (("WorkingDir", test.workdir), ("User", test.user)):
        if word and word != (config.get(key) or ""):
            yield _metadatum(f"{key} is '{config.get(key) or ''}', not '{word}'")


def _check_values(what: str, expected: Sequence[EnvVar], there: Mapping[str, str]) -> Iterator[ImageFinding]:
    for each in expected:
        value = there.get(each.key)
        if value is None or not (each.is_regex or value == each.value):
            yield _metadatum(f"the {what} {each.key} is {'not set' if value is None else repr(value)}")
        elif each.is_regex:
            yield from match_text("metadataTest", value, (each.value,), (), f"the {what} {each.key}")


def _metadatum(message: str) -> ImageFinding:
    return ImageFinding(RULE, "metadataTest", message)
