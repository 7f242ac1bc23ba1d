"""Runs the text of a profile and keeps the rules it makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sandwright.evaluate.sbpl.datum import NIL, Pair, Value, symbol
from sandwright.evaluate.sbpl.errors import ProfileError
from sandwright.evaluate.sbpl.forms import SPECIAL_FORMS
from sandwright.evaluate.sbpl.library import ASSUMED, Import, Importer, Library, MissingParameter, no_imports
from sandwright.evaluate.sbpl.machine import Machine, SbplLimits, SchemeEnvironment
from sandwright.evaluate.sbpl.procedures import core_procedures
from sandwright.evaluate.sbpl.reader import Datum, read_data
from sandwright.evaluate.sbpl.rule import Rule
from sandwright.evaluate.sbpl.source import SourceFile, Span
from sandwright.evaluate.sbpl.strings import string_procedures


@dataclass(frozen=True, eq=False)
class SbplProfile:
    """A profile that has run: its rules, the files it imported, the parameters that had no value.

    `version` is the number that it gives, and where; every version is read as the first.
    """

    source: SourceFile
    rules: tuple[Rule, ...]
    imports: tuple[Import, ...]
    missing_params: tuple[MissingParameter, ...]
    version: int = 1
    version_span: Span | None = None


PRELUDE = "(version 1)\n(deny default)\n"
"""The text that is assumed before a fragment."""


def compile_profile(
    text: str | bytes,
    *,
    file: str = "profile.sb",
    params: Mapping[str, str] | None = None,
    importer: Importer = no_imports,
    limits: SbplLimits | None = None,
    fragment: bool = False,
) -> SbplProfile:
    """Run a profile as `sandbox-exec -f` compiles it, with the `params` of `-D`.

    `file` is the name for messages. `importer` finds imported profiles. A `fragment` is run behind
    `PRELUDE`. Raise ProfileError, which says
    where, when the text is no profile, when macOS would not compile it, and when it does not end within
    `limits`.
    """

    def refuse(error: ProfileError) -> None:
        raise error

    return run_profile(
        text, refuse, file=file, params=params, importer=importer, limits=limits, fragment=fragment
    )


def run_profile(
    text: str | bytes,
    failed: Callable[[ProfileError], None],
    *,
    file: str = "profile.sb",
    params: Mapping[str, str] | None = None,
    importer: Importer = no_imports,
    limits: SbplLimits | None = None,
    fragment: bool = False,
) -> SbplProfile:
    """Run a profile like `compile_profile`, but tell `failed` of each expression that fails and go on.

    When the profile has used up its steps, the run ends.
    """
    source = SourceFile(file, text)
    library = _library(params or {}, importer, limits or SbplLimits())
    library.own = file
    if fragment:
        for datum in read_data(SourceFile(ASSUMED, PRELUDE)):
            library.machine.span = datum.span
            _run_form(library, datum.value, failed)
        library.assumed = True
    for datum in _read_data(source, failed):
        library.machine.span = datum.span
        _run_form(library, datum.value, failed)
        if library.machine.steps > library.machine.limits.steps:
            break
    if not library.version:
        failed(ProfileError(source.position(0), "no version specified"))
    else:
        _run_form(library, Pair(symbol("%finalize"), NIL), failed)
    return SbplProfile(
        source,
        tuple(library.actions.rules),
        tuple(library.imports),
        tuple(library.missing_params),
        library.version,
        library.version_span,
    )


def _read_data(source: SourceFile, failed: Callable[[ProfileError], None]) -> Iterator[Datum]:
    try:
        yield from read_data(source)
    except ProfileError as error:
        failed(error)


def _run_form(library: Library, form: Value, failed: Callable[[ProfileError], None]) -> None:
    try:
        library.machine.run(form, library.environment)
    except ProfileError as error:
        failed(library.explain(error))


def _library(params: Mapping[str, str], importer: Importer, limits: SbplLimits) -> Library:
    machine = Machine(SPECIAL_FORMS, limits)
    environment = SchemeEnvironment({**core_procedures(machine), **string_procedures(machine)})
    library = Library(machine, environment, params, importer)
    machine.forms = {**SPECIAL_FORMS, **library.actions.special_forms()}
    library.install_stub()
    return library
