"""Runs the text of a profile and keeps the rules it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sandwright.evaluate.sbpl.errors import ProfileError
from sandwright.evaluate.sbpl.forms import SPECIAL_FORMS
from sandwright.evaluate.sbpl.library import Importer, Library, no_imports, unbound_hint
from sandwright.evaluate.sbpl.machine import Environment, Limits, Machine
from sandwright.evaluate.sbpl.procedures import core_procedures
from sandwright.evaluate.sbpl.reader import read
from sandwright.evaluate.sbpl.rule import Rule
from sandwright.evaluate.sbpl.source import Source
from sandwright.evaluate.sbpl.strings import string_procedures


@dataclass(frozen=True, eq=False)
class Profile:
    """A profile that has run: its rules, the files it imported, the parameters it asked for in vain."""

    source: Source
    rules: tuple[Rule, ...]
    imports: tuple[str, ...]
    missing_params: tuple[str, ...]


def compile_profile(
    text: str | bytes,
    *,
    file: str = "profile.sb",
    params: Mapping[str, str] | None = None,
    importer: Importer = no_imports,
    limits: Limits | None = None,
) -> Profile:
    """Run a profile as `sandbox-exec -f` compiles it, with the `params` of `-D`.

    `file` is the name for messages. `importer` finds what the profile imports. Raise ProfileError, which says
    where, when the text is no profile, when macOS would not compile it, and when it does not end within
    `limits`.
    """
    source = Source(file, text)
    library = _library(params or {}, importer, limits or Limits())
    try:
        for datum in read(source):
            library.machine.span = datum.span
            library.machine.run(datum.value, library.environment)
    except ProfileError as error:
        raise ProfileError(error.position, unbound_hint(error.message)) from None
    if not library.versioned:
        raise ProfileError(source.position(0), "no version specified")
    return Profile(
        source,
        tuple(library.actions.rules),
        tuple(library.imports),
        tuple(dict.fromkeys(library.missing_params)),
    )


def _library(params: Mapping[str, str], importer: Importer, limits: Limits) -> Library:
    machine = Machine(SPECIAL_FORMS, limits)
    environment = Environment({**core_procedures(machine), **string_procedures(machine)})
    library = Library(machine, environment, params, importer)
    machine.forms = {**SPECIAL_FORMS, **library.actions.special_forms()}
    library.install_stub()
    return library
