"""Structure tests as container-structure-test has them (schemas 1.0.0 and 2.0.0): read from a file.

`compared.py` compares them with an image, `commands.py` runs their commands. An unsupported field fails with
its name, and is never ignored.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from sandwright.documents.decode import decode
from sandwright.documents.document import MAX_BYTES, FieldErrors, shown_value
from sandwright.documents.model import ValueCheck
from sandwright.documents.yaml import parse_yaml
from sandwright.errors import UsageError
from sandwright.reading import quoting_no_link, read_named

RULE = "structure/test"
_LICENCES = (b"usr/share/doc/", b"/copyright")


def _go_text(value: object) -> str:
    """Go takes numbers and truth values for the text that they are written as."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ValueError(f"must be text, not {shown_value(value)}")
    return str(value)


def _word_list(value: object) -> tuple[str, ...]:
    """A list of words; a text alone is one."""
    if not isinstance(value, list | str | int | float):
        raise ValueError(f"must be text or a list, not {shown_value(value)}")
    if not isinstance(value, list):
        return (_go_text(value),)
    wrong = [
        ((index,), f"must be text, not {shown_value(each)}")
        for index, each in enumerate(value)
        if not isinstance(each, str | int | float)
    ]
    if wrong:
        raise FieldErrors(wrong)
    return tuple(map(_go_text, value))


Word = Annotated[str, ValueCheck(_go_text, raw=True)]
Pattern = Word
"""A regular expression of Go. One that is none fails its test, and not the file."""


@dataclass(frozen=True, kw_only=True)
class EnvVar:
    """A variable, label or annotation: its value, or a pattern for it."""

    key: Word = ""
    value: Word = ""
    is_regex: bool = field(default=False, metadata={"key": "isRegex"})


@dataclass(frozen=True, kw_only=True)
class CommandTest:
    """A program to start, and its expected result. In schema 1.0.0 `command` has the arguments, too.

    `setup` is not supported; `teardown` is read and not run, as by container-structure-test itself.
    """

    name: Word = ""
    command: Annotated[tuple[str, ...], ValueCheck(_word_list, raw=True)] = ()
    args: tuple[Word, ...] = ()
    setup: tuple[tuple[Word, ...], ...] = ()
    teardown: tuple[tuple[Word, ...], ...] = ()
    env_vars: tuple[EnvVar, ...] = field(default=(), metadata={"key": "envVars"})
    expected_output: tuple[Pattern, ...] = field(default=(), metadata={"key": "expectedOutput"})
    excluded_output: tuple[Pattern, ...] = field(default=(), metadata={"key": "excludedOutput"})
    expected_error: tuple[Pattern, ...] = field(default=(), metadata={"key": "expectedError"})
    excluded_error: tuple[Pattern, ...] = field(default=(), metadata={"key": "excludedError"})
    exit_code: int = field(default=0, metadata={"key": "exitCode"})

    @property
    def argv(self) -> tuple[str, ...]:
        """The program and its arguments."""
        return (*self.command, *self.args) if any(self.command) else ()

    def faults(self) -> Iterator[str]:
        """The reasons why the test can't be run as it is written."""
        if not self.name:
            yield "it has no name"
        if not self.argv:
            yield "it has no command"
        if any(not each.key or not each.value for each in self.env_vars):
            yield "a variable of it has no name or no value"
        if self.setup:
            yield "setup is not supported here: each command gets the image as it is"


@dataclass(frozen=True, kw_only=True)
class ExistenceTest:
    """A path that must exist, or must not."""

    name: Word = ""
    path: str = ""
    should_exist: bool = field(default=True, metadata={"key": "shouldExist"})
    permissions: str = ""
    uid: int = -1
    gid: int = -1
    is_executable_by: str = field(default="", metadata={"key": "isExecutableBy"})


@dataclass(frozen=True, kw_only=True)
class ContentTest:
    """Patterns that a file must match, and patterns that it must not match."""

    name: Word = ""
    path: str = ""
    expected: tuple[Pattern, ...] = field(default=(), metadata={"key": "expectedContents"})
    excluded: tuple[Pattern, ...] = field(default=(), metadata={"key": "excludedContents"})


@dataclass(frozen=True, kw_only=True)
class LicenseTest:
    """Files that must not name the AGPL or the WTFPL; `debian`: those of all packages of Debian's."""

    debian: bool = False
    files: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MetadataTest:
    """The expected configuration of the image.

    An absent or empty text asks for nothing. An empty list as entrypoint or cmd asks that there is none.
    """

    env_vars: tuple[EnvVar, ...] = field(default=(), metadata={"key": "envVars"})
    unbound_env_vars: tuple[EnvVar, ...] = field(default=(), metadata={"key": "unboundEnvVars"})
    labels: tuple[EnvVar, ...] = ()
    exposed_ports: tuple[Word, ...] = field(default=(), metadata={"key": "exposedPorts"})
    unexposed_ports: tuple[Word, ...] = field(default=(), metadata={"key": "unexposedPorts"})
    volumes: tuple[str, ...] = ()
    unmounted_volumes: tuple[str, ...] = field(default=(), metadata={"key": "unmountedVolumes"})
    entrypoint: tuple[Word, ...] | None = None
    cmd: tuple[Word, ...] | None = None
    workdir: str = ""
    user: Word = ""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options for commands. `privileged`, terminals, capabilities and mounts are not supported."""

    user: Word = ""
    privileged: bool = False
    tty: bool = field(default=False, metadata={"key": "allocateTty"})
    env_vars: tuple[Word, ...] = field(default=(), metadata={"key": "envVars"})
    env_file: str = field(default="", metadata={"key": "envFile"})
    capabilities: tuple[Word, ...] = ()
    bind_mounts: tuple[Word, ...] = field(default=(), metadata={"key": "bindMounts"})

    def faults(self) -> Iterator[str]:
        """The options that are not supported here."""
        for name, value in (
            ("privileged", self.privileged),
            ("allocateTty", self.tty),
            ("capabilities", self.capabilities),
            ("bindMounts", self.bind_mounts),
        ):
            if value:
                yield f"containerRunOptions: {name} is not supported here, so no command was run"

    def environment(self) -> dict[str, str]:
        """The variables that it adds: of its file, then those of ours that it names, as far as they are set.

        Raise UsageError for a file that can't be read.
        """
        found: dict[str, str] = {}
        if self.env_file:
            for line in _read_test_file(Path(self.env_file)).splitlines():
                name, equals, value = line.strip().removeprefix("export ").partition("=")
                if equals and value.strip() and not name.startswith("#"):
                    found[name.strip()] = _unquoted(value.strip())
        return found | {name: os.environ[name] for name in self.env_vars if os.environ.get(name)}


@dataclass(frozen=True, kw_only=True)
class StructureTests:
    """One file of tests."""

    schema_version: Literal["1.0.0", "2.0.0"] = field(metadata={"key": "schemaVersion"})
    global_env_vars: tuple[EnvVar, ...] = field(default=(), metadata={"key": "globalEnvVars"})
    commands: tuple[CommandTest, ...] = field(default=(), metadata={"key": "commandTests"})
    existence: tuple[ExistenceTest, ...] = field(default=(), metadata={"key": "fileExistenceTests"})
    content: tuple[ContentTest, ...] = field(default=(), metadata={"key": "fileContentTests"})
    metadata: MetadataTest | None = field(default=None, metadata={"key": "metadataTest"})
    licences: tuple[LicenseTest, ...] = field(default=(), metadata={"key": "licenseTests"})
    options: RunOptions = field(default=RunOptions(), metadata={"key": "containerRunOptions"})

    def tests_nothing(self) -> bool:
        """Whether the file contains no test that could fail."""
        named = [*self.commands, *self.existence, *self.content]
        named += [test for test in self.licences if test.debian or test.files]
        return not named and self.metadata in (None, MetadataTest())

    def paths(self) -> frozenset[bytes]:
        """The files whose content is tested, relative."""
        files = [test.path for test in self.content]
        return frozenset(map(relative, [*files, *(path for test in self.licences for path in test.files)]))

    def asks(self, path: bytes) -> bool:
        """Whether a test may need the content of a file that no test names."""
        start, end = _LICENCES
        return path.startswith(start) and path.endswith(end) and any(test.debian for test in self.licences)


def read_tests(path: Path) -> StructureTests:
    """Read a file.

    Raise UsageError when it can't be read or tests nothing, DocumentError with the position of each fault.
    """
    with quoting_no_link(path, str(path)):
        document = parse_yaml(_read_test_file(path), file=str(path))
        tests = decode(StructureTests, replace(document, data=_without_nothing(document.data)))
    if tests.tests_nothing():
        raise UsageError(f"{path}: it has no test that could fail")
    return tests


def environment(config: Mapping[str, Any], variables: Sequence[EnvVar]) -> dict[str, str]:
    """The variables of an image's configuration, with those of tests, whose values may name the former."""
    found = dict(each.partition("=")[::2] for each in config.get("Env") or ())
    return found | {each.key: expand_variables(each.value, found) for each in variables}


_SPECIAL = "*#$@!?-0123456789"
_NAME = re.compile("[A-Za-z0-9_]+")


def expand_variables(text: str, variables: Mapping[str, str]) -> str:
    """A text with `$name` and `${name}` replaced as Go's os.Expand does: by nothing where there is none."""
    made, at = [], 0
    while (dollar := text.find("$", at)) >= 0 and dollar + 1 < len(text):
        made.append(text[at:dollar])
        name, width = _shell_name(text[dollar + 1 :])
        made.append(variables.get(name, "") if name else "" if width else "$")
        at = dollar + 1 + width
    return "".join([*made, text[at:]])


def _shell_name(rest: str) -> tuple[str, int]:
    """The name after a dollar, and how many characters it takes; no name if it is malformed."""
    if rest[0] == "{":
        end = rest.find("}")
        return (rest[1:end], end + 1) if end > 0 else ("", 1)
    if rest[0] in _SPECIAL:
        return rest[0], 1
    name = _NAME.match(rest)
    return (name[0], name.end()) if name else ("", 0)


def relative(path: str) -> bytes:
    """The path of a test in the form that file trees use."""
    return b"/".join(part for part in path.encode().split(b"/") if part not in (b"", b"."))


def _read_test_file(path: Path) -> str:
    try:
        return read_named(path, limit=MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def _without_nothing(data: Any) -> Any:  # noqa: ANN401 - a document
    """A document without the keys that have no value: to Go they are as good as absent."""
    if isinstance(data, dict):
        return {key: _without_nothing(value) for key, value in data.items() if value is not None}
    return [_without_nothing(each) for each in data] if isinstance(data, list) else data
