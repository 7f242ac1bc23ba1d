"""Writes reports as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from xml.etree import ElementTree as ET

from sandwright.verify.verdict import Verdict

JunitElement = Literal["failure", "error", "skipped", "system-out"]

_ELEMENTS: Mapping[Verdict, JunitElement] = {
    Verdict.FAIL: "failure",
    Verdict.INCONCLUSIVE: "error",
    Verdict.SKIPPED: "skipped",
    Verdict.NOT_PROMISED: "skipped",
}
_PLURALS = {"failure": "failures", "error": "errors", "skipped": "skipped"}
_UNPRINTABLE = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class JunitCase:
    """A case of a suite. `element` is its child element, None for a pass."""

    name: str
    classname: str
    element: JunitElement | None = None
    message: str = ""
    text: str = ""


@dataclass(frozen=True)
class JunitSuite:
    """A suite; `attributes` are those beside its name and the counts of its cases."""

    name: str
    cases: Sequence[JunitCase]
    attributes: Mapping[str, str] = field(default_factory=dict)


def element_of(verdict: Verdict) -> JunitElement | None:
    """The element of a verdict: an undecided probe is an error there."""
    return _ELEMENTS.get(verdict)


def junit_xml(
    name: str,
    suites: Iterable[JunitSuite],
    *,
    seconds: float | None = None,
    counted: Sequence[JunitElement] = ("failure", "error", "skipped"),
) -> bytes:
    """The document. `counted` are the elements that each suite counts in its attributes."""
    root = ET.Element("testsuites", name=name)
    if seconds is not None:
        root.set("time", f"{seconds:.3f}")
    for suite in suites:
        made = ET.SubElement(root, "testsuite", name=suite.name)
        for key, value in suite.attributes.items():
            made.set(key, value)
        made.set("tests", str(len(suite.cases)))
        for each in counted:
            made.set(_PLURALS[each], str(sum(case.element == each for case in suite.cases)))
        for case in suite.cases:
            _add_case(made, case)
    xml: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return xml


def _add_case(suite: ET.Element, case: JunitCase) -> None:
    made = ET.SubElement(suite, "testcase", classname=case.classname, name=_xml_text(case.name))
    if case.element is None:
        return
    element = ET.SubElement(made, case.element)
    if case.message:
        element.set("message", _xml_text(case.message))
    if case.text:
        element.text = _xml_text(case.text)


def _xml_text(text: str) -> str:
    """Replace characters that XML 1.0 can't represent (control characters, lone surrogates)."""
    return _UNPRINTABLE.sub("\ufffd", text)
