"""Lint checks of how a profile is written: strings, names, comments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sandwright.evaluate.sbpl.errors import ProfileError
from sandwright.evaluate.sbpl.finding import Check, LintedProfile, SbplFinding
from sandwright.evaluate.sbpl.imports import STAND_INS
from sandwright.evaluate.sbpl.library import IMPORT_DIRECTORIES
from sandwright.evaluate.sbpl.reader import tokens
from sandwright.evaluate.sbpl.source import Span, readable
from sandwright.evaluate.sbpl.vocabulary import vocabulary

_LONGEST = 250
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MEANS_SOMETHING = 'ntrxX01234567"\\'


def _tokens(subject: LintedProfile) -> Iterator[tuple[str, str, Span]]:
    """The tokens of the profile's own file: kind, text and place. Ends where the file can't be read."""
    source = subject.profile.source
    try:
        for kind, start, end in tokens(source, comments=True):
            yield kind, source.octets[start:end], Span(source, start, end)
    except ProfileError:
        return


def _lint_strings(subject: LintedProfile) -> Iterator[SbplFinding]:
    for kind, text, span in _tokens(subject):
        if kind not in ("string", "raw"):
            continue
        if len(text) > _LONGEST:
            message = (
                f"this string has {len(text)} bytes; TinyScheme's buffer takes 255. Pass it by a parameter"
            )
            yield subject.find(span, "L27", "warning", message)
        escapes = _ESCAPE.findall(text) if kind == "string" else []
        lost = next((octet for octet in escapes if octet not in _MEANS_SOMETHING), None)
        if lost is not None:
            octet = readable(lost)
            message = f'in a string \\{octet} is just {octet}; for a regex write \\\\{octet} or use #"…"'
            yield subject.find(span, "L07", "warning", message)


def _lint_deprecated_names(subject: LintedProfile) -> Iterator[SbplFinding]:
    deprecated = vocabulary().deprecated
    for kind, text, span in _tokens(subject):
        if kind == "atom" and text in deprecated:
            instead = f"; use {deprecated[text]}" if deprecated[text] else " and has no effect"
            yield subject.find(span, "L30", "info", f"{text} is an old name{instead}")


def _comments(subject: LintedProfile) -> Iterator[SbplFinding]:
    for kind, text, span in _tokens(subject):
        if kind in ("block", "skip"):
            message = f"{text[:2]} comments are not known to work on macOS; use ;"
            yield subject.find(span, "L33", "error", message)


def _lint_imports(subject: LintedProfile) -> Iterator[SbplFinding]:
    for found in subject.profile.imports:
        base = found.name.rpartition("/")[2]
        if base in STAND_INS or found.file.startswith(IMPORT_DIRECTORIES):
            message = f"{found.name} changes with each macOS release: its rules are unknown here"
        elif not found.name.startswith("/"):
            message = f"{found.name} is looked for in system directories, not beside this file"
        else:
            continue
        yield subject.find(found.span, "L29", "warning", message)


def _params(subject: LintedProfile) -> Iterator[SbplFinding]:
    for missing in subject.profile.missing_params:
        message = f"the parameter {missing.name} has no value here: (param …) gives #f"
        yield subject.find(missing.span, "L28", "error", message)


def _lint_version(subject: LintedProfile) -> Iterator[SbplFinding]:
    number = subject.profile.version
    if number > 1:
        message = f"version {number} is read as version 1 here: its other meanings are not documented"
        yield subject.find(subject.profile.version_span, "L35", "info", message)


TEXT_CHECKS: tuple[Check, ...] = (
    _lint_strings,
    _lint_deprecated_names,
    _comments,
    _lint_imports,
    _params,
    _lint_version,
)
