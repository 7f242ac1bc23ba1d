"""Structure tests as container-structure-test has them (schema 2.0.0): read, and compared with an image.

Commands are started by `commands.py`. What is asked for and not done here is an error, never left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from sandwright.check.finding import Finding
from sandwright.document import MAX_BYTES, load_model, parse
from sandwright.errors import UsageError
from sandwright.image.tree import Tree
from sandwright.reading import read_named
from sandwright.release.contents import Contents
from sandwright.rootfs.images.source import Image
from sandwright.rootfs.tar.entry import Kind

RULE = "structure/test"
_LETTERS = {Kind.DIRECTORY: "d", Kind.SYMLINK: "l", Kind.CHARACTER: "c", Kind.BLOCK: "b", Kind.FIFO: "p"}
_WHO = {"owner": 0o100, "group": 0o010, "other": 0o001, "any": 0o111}


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression that is known here: {error}") from error
    return text


def _text(value: object) -> object:
    """Ports and ids are written as numbers, too."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Pattern = Annotated[str, BeforeValidator(_text), AfterValidator(_pattern)]
Word = Annotated[str, BeforeValidator(_text)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Variable(_Part):
    """A variable, label or annotation: its value, or a pattern for it."""

    key: Word
    value: Word
    is_regex: bool = Field(default=False, alias="isRegex")


class CommandTest(_Part):
    """A program to start, and what has to come of it."""

    name: str
    command: str
    args: tuple[Word, ...] = ()
    env_vars: tuple[Variable, ...] = Field(default=(), alias="envVars")
    expected_output: tuple[Pattern, ...] = Field(default=(), alias="expectedOutput")
    excluded_output: tuple[Pattern, ...] = Field(default=(), alias="excludedOutput")
    expected_error: tuple[Pattern, ...] = Field(default=(), alias="expectedError")
    excluded_error: tuple[Pattern, ...] = Field(default=(), alias="excludedError")
    exit_code: int = Field(default=0, alias="exitCode")


class ExistenceTest(_Part):
    """A path that has to be there, or must not be."""

    name: str
    path: str
    should_exist: bool = Field(default=True, alias="shouldExist")
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None
    is_executable_by: Literal["", "owner", "group", "other", "any"] = Field(
        default="", alias="isExecutableBy"
    )


class ContentTest(_Part):
    """What a file has to say, and must not."""

    name: str
    path: str
    expected: tuple[Pattern, ...] = Field(default=(), alias="expectedContents")
    excluded: tuple[Pattern, ...] = Field(default=(), alias="excludedContents")


class MetadataTest(_Part):
    """What the configuration has to say. An absent field asks for nothing, an empty one for nothing there."""

    env_vars: tuple[Variable, ...] = Field(default=(), alias="envVars")
    labels: tuple[Variable, ...] = ()
    exposed_ports: tuple[Word, ...] = Field(default=(), alias="exposedPorts")
    unexposed_ports: tuple[Word, ...] = Field(default=(), alias="unexposedPorts")
    volumes: tuple[str, ...] = ()
    unmounted_volumes: tuple[str, ...] = Field(default=(), alias="unmountedVolumes")
    entrypoint: tuple[Word, ...] | None = None
    cmd: tuple[Word, ...] | None = None
    workdir: str | None = None
    user: Word | None = None


class StructureTests(_Part):
    """One file of tests."""

    schema_version: Literal["2.0.0"] = Field(alias="schemaVersion")
    global_env_vars: tuple[Variable, ...] = Field(default=(), alias="globalEnvVars")
    commands: tuple[CommandTest, ...] = Field(default=(), alias="commandTests")
    existence: tuple[ExistenceTest, ...] = Field(default=(), alias="fileExistenceTests")
    content: tuple[ContentTest, ...] = Field(default=(), alias="fileContentTests")
    metadata: MetadataTest | None = Field(default=None, alias="metadataTest")

    def paths(self) -> frozenset[bytes]:
        """The files whose content is asked about, relative."""
        return frozenset(_relative(test.path) for test in self.content)


def read_tests(path: Path) -> StructureTests:
    """Read a file. Raise UsageError when it can't be read, DocumentError with the places of what is wrong."""
    try:
        text = read_named(path, limit=MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can't be read: {error}") from error
    return load_model(StructureTests, parse(text, file=str(path)))


def check_structure(tests: StructureTests, image: Image, contents: Contents) -> Iterator[Finding]:
    """What of the tests doesn't hold, but for the commands: findings of rule `structure/test`."""
    for existence in tests.existence:
        yield from _existence(existence, contents.tree)
    for content in tests.content:
        yield from _content(content, contents.tree)
    if tests.metadata is not None:
        yield from _metadata(tests.metadata, image.config.get("config") or {})


def said(
    name: str, text: str, expected: Sequence[str], excluded: Sequence[str], what: str
) -> Iterator[Finding]:
    """What of the patterns does not fit a text."""
    for pattern in expected:
        if not re.search(pattern, text):
            yield Finding(RULE, name, f"{what} doesn't have '{pattern}'")
    for pattern in excluded:
        if re.search(pattern, text):
            yield Finding(RULE, name, f"{what} has '{pattern}'")


def _existence(test: ExistenceTest, tree: Tree) -> Iterator[Finding]:
    folder, _, name = _relative(test.path).rpartition(b"/")
    parent = tree.resolve(folder)
    node = None if parent is None else tree.get(parent + b"/" + name if parent else name)
    if (node is not None) != test.should_exist:
        yield Finding(RULE, test.name, f"{test.path} is {'not ' if test.should_exist else ''}there")
        return
    if node is None:
        return
    rights = _LETTERS.get(node.kind, "-") + _rights(node.mode)
    if test.permissions and test.permissions != rights:
        yield Finding(RULE, test.name, f"{test.path} has {rights}, not {test.permissions}")
    for what, value, wanted in (("user", node.uid, test.uid), ("group", node.gid, test.gid)):
        if wanted is not None and value != wanted:
            yield Finding(RULE, test.name, f"{test.path} belongs to {what} {value}, not {wanted}")
    if test.is_executable_by and not node.mode & _WHO[test.is_executable_by]:
        yield Finding(RULE, test.name, f"{test.path} can't be executed by {test.is_executable_by}")


def _rights(mode: int) -> str:
    """The nine letters of ls(1), without those of set-id and sticky bits, as Go's FileMode writes them."""
    return "".join(
        letter if mode & 1 << bit else "-" for bit, letter in zip(range(8, -1, -1), "rwx" * 3, strict=True)
    )


def _content(test: ContentTest, tree: Tree) -> Iterator[Finding]:
    raw = tree.content(_relative(test.path))
    if raw is None:
        yield Finding(RULE, test.name, f"{test.path} is no file")
        return
    yield from said(test.name, raw.decode("utf-8", "replace"), test.expected, test.excluded, test.path)


def _metadata(test: MetadataTest, config: Mapping[str, Any]) -> Iterator[Finding]:
    environment = dict(each.partition("=")[::2] for each in config.get("Env") or ())
    for what, wanted, there in (
        ("variable", test.env_vars, environment),
        ("label", test.labels, config.get("Labels") or {}),
    ):
        for each in wanted:
            value = there.get(each.key)
            fits = value is not None and (
                re.search(each.value, value) if each.is_regex else value == each.value
            )
            if not fits:
                yield _metadatum(f"the {what} {each.key} is {'not set' if value is None else repr(value)}")
    ports = {port.partition("/")[0] for port in config.get("ExposedPorts") or ()} | set(
        config.get("ExposedPorts") or ()
    )
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
        if word is not None and word != (config.get(key) or ""):
            yield _metadatum(f"{key} is '{config.get(key) or ''}', not '{word}'")


def _metadatum(message: str) -> Finding:
    return Finding(RULE, "metadataTest", message)


def _relative(path: str) -> bytes:
    return b"/".join(part for part in path.encode().split(b"/") if part not in (b"", b"."))
