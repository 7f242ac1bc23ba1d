"""The library that `version` brings: operations, filters, modifiers, actions, parameters, imports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sandwright.evaluate.sbpl.actions import NO_OP, Actions, OperationValue, modifier
from sandwright.evaluate.sbpl.datum import NIL, Symbol, Value, symbol
from sandwright.evaluate.sbpl.errors import ProfileError, SbplFault
from sandwright.evaluate.sbpl.filters import All, Any, Not, Test
from sandwright.evaluate.sbpl.library_filters import filter_procedures
from sandwright.evaluate.sbpl.machine import Machine, Procedure, SchemeEnvironment, Steps, Tail, describe
from sandwright.evaluate.sbpl.procedures import Step
from sandwright.evaluate.sbpl.reader import read_data
from sandwright.evaluate.sbpl.source import SourceFile, Span, octets, readable
from sandwright.evaluate.sbpl.vocabulary import nearest, vocabulary

IMPORT_DIRECTORIES = ("/System/Library/Sandbox/Profiles", "/usr/share/sandbox")
"""The directories that macOS searches for a profile that is imported by a relative name."""

READ_AS_FIRST = (2, 3)
"""Versions of the language in Apple's profiles; their other meanings are not documented."""

_KINDS = ("unbound variable", "this list is never closed", "imports itself")
_UNQUOTED = "; imported text is not quoted: pass the imported file as the profile to see more"
ASSUMED = "(assumed)"
"""The name, in positions, of the text before a fragment."""

_MAX_IMPORTS = 20
_NOTHING = (
    "disable-callouts",
    "disable-full-symbolication",
    "eliminate-duplicate-rules",
    "%finalize",
    "enable-full-symbolication",
    "record",
)
"""Procedures that macOS has and that decide nothing."""


class Importer(Protocol):
    """Finds imported profiles."""

    def __call__(self, name: str, directories: Sequence[str]) -> SourceFile | None:
        """The profile that an `import` calls `name`; a relative name is looked for in `directories`."""
        ...


def no_imports(name: str, directories: Sequence[str]) -> SourceFile | None:  # noqa: ARG001
    """An importer that never finds a profile."""
    return None


@dataclass(frozen=True, slots=True)
class Import:
    """An import that was found: the requested name, and the name of the file."""

    name: str
    file: str
    span: Span | None


@dataclass(frozen=True, slots=True)
class MissingParameter:
    """A parameter that the profile uses and that has no value."""

    name: str
    span: Span | None


class Library:
    """The bindings of one run."""

    def __init__(
        self, machine: Machine, environment: SchemeEnvironment, params: Mapping[str, str], importer: Importer
    ) -> None:
        """`environment` is the global one; `params` are those of `-D`.

        `own` is the profile's own name, once it is known; `version` the number that it gives, 0 before; with
        `assumed` that number is ours, and the profile may give its own.
        """
        self.machine = machine
        self.environment = environment
        self.params = {octets(key): octets(value) for key, value in params.items()}
        self.importer = importer
        self.actions = Actions(machine)
        self.imports: list[Import] = []
        self.missing_params: list[MissingParameter] = []
        self.own = ""
        self.version = 0
        self.version_span: Span | None = None
        self.assumed = False
        self._importing: list[Import] = []
        self._trace: str | None = None

    def install_stub(self) -> None:
        """Bind the names that exist before `version` is called."""
        self.environment.values[symbol("version")] = Procedure("version", self._set_version, 1, 1)

    def explain(self, error: ProfileError) -> ProfileError:
        """The error, with the positions of its file's imports, and a suggestion for a misspelt name.

        Nothing is quoted of an imported file, which may be anything that its reader can read: `/etc/shadow`.
        All forms and imports around the failed expression are left.
        """
        places = [f" (imported at {found.span.position})" for found in self._importing if found.span]
        self.actions.recover()
        self._importing.clear()
        if error.position.file in (self.own, ASSUMED) and not places:
            return ProfileError(error.position, unbound_hint(error.message))
        kind = next((each for each in _KINDS if each in error.message), "does not compile")
        return ProfileError(error.position, kind + _UNQUOTED + "".join(reversed(places)))

    def _set_version(self, number: Value) -> Value:
        if self.version and not self.assumed and number != self.version:
            raise SbplFault("only one version may be specified")
        if isinstance(number, bool) or not isinstance(number, int) or number not in (1, *READ_AS_FIRST):
            raise SbplFault(f"unsupported version: {describe(number)}")
        if not self.version:
            self.environment.values.update(self._initial_bindings())
        self.version, self.version_span, self.assumed = number, self.machine.span, False
        return NIL

    def _initial_bindings(self) -> dict[Symbol, Value]:
        words = vocabulary()
        found: dict[str, Value] = dict(words.constants)
        found.update({name: OperationValue(operation.name) for name, operation in words.operations.items()})
        found.update(dict.fromkeys(words.no_ops, NO_OP))
        found.update({name: symbol(name) for name in (*words.protocols, "unix", "unix-socket")})
        found.update(words.modifiers)
        found.update({name: Procedure(name, lambda *_: NIL, 0, None) for name in _NOTHING})
        found.update(filter_procedures(self.machine))
        for name, call, least, most in self._procedures():
            found[name] = Procedure(name, call, least, most)
        found["import"] = Steps("import", self._import, 1, 1)
        return {symbol(name): value for name, value in found.items()}

    def _procedures(self) -> Iterator[tuple[str, Callable[..., object], int, int | None]]:
        yield "allow", self.actions.allow, 1, None
        yield "deny", self.actions.deny, 1, None
        yield "with", modifier, 1, None
        yield "param", self._param, 1, 1
        yield "getenv", self._param, 1, 1
        yield "trace", self._set_trace, 1, 1
        yield "sbpl-filter?", lambda value: isinstance(value, Test | All | Any | Not), 1, 1
        yield "define-storage-class", self.actions.storage_class, 2, 2
        yield "_IO", _io_number, 2, 2

    def _param(self, key: Value) -> Value:
        if not isinstance(key, str):
            raise SbplFault("param: argument 1 must be: string")
        if key not in self.params:
            self.missing_params.append(MissingParameter(readable(key), self.machine.span))
            return False
        return self.params[key]

    def _set_trace(self, path: Value) -> Value:
        if not isinstance(path, str):
            raise SbplFault("argument to trace must be a string")
        if self._trace is not None:
            raise SbplFault("only one trace path may be specified")
        self._trace = path
        return NIL

    def _import(self, name: Value) -> Step:
        source = self._find_profile(name)
        here = self.machine.span
        found = Import(str(name), source.name, here)
        self.imports.append(found)
        self._importing.append(found)
        for datum in read_data(source):
            self.machine.span = datum.span
            yield Tail(datum.value, self.environment)
        self._importing.pop()
        self.machine.span = here
        return NIL

    def _find_profile(self, name: Value) -> SourceFile:
        """The imported profile of that name."""
        if not isinstance(name, str):
            raise SbplFault("import: argument 1 must be: string")
        chosen = self.params.get("IMPORT_DIR")
        directories = IMPORT_DIRECTORIES if chosen is None else (readable(chosen),)
        source = self.importer(readable(name), directories)
        if source is None:
            raise SbplFault(f"unable to open {readable(name)}")
        if source.name in {found.file for found in self._importing} or len(self._importing) >= _MAX_IMPORTS:
            raise SbplFault(f"{readable(name)} imports itself")
        return source


def _io_number(group: Value, number: Value) -> Value:
    """`_IO` of `sys/ioccom.h`: the number of an ioctl or fsctl command."""
    if not isinstance(group, str) or not group or isinstance(number, bool) or not isinstance(number, int):
        raise SbplFault("_IO needs a string and a number")
    return number + 256 * ord(group[0])


def unbound_hint(message: str) -> str:
    """The message about an unbound variable with a suggestion, when a name of the language is near."""
    name = message.removeprefix("unbound variable: ")
    if name == message:
        return message
    words = vocabulary()
    names = (*words.operations, *words.filters, *words.modifiers, *words.constants)
    return message + nearest(name, (*names, "require-all", "require-any", "require-not"))
