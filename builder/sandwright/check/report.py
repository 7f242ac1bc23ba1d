"""Writes findings as JSON, as SARIF 2.1.0 for code hosts, and as JUnit's XML."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sandwright.check.finding import RULES, ImageFinding
from sandwright.check.image import CheckResult
from sandwright.sarif import sarif
from sandwright.verify.junit import JunitCase, JunitSuite, junit_xml

_UNPRINTABLE = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_json(images: Sequence[CheckResult]) -> bytes:
    """An object whose `images` have name, digest, platform, size, layers and findings."""
    rows = [
        {**asdict(image), "findings": [{**asdict(f), "severity": f.severity} for f in image.findings]}
        for image in images
    ]
    return _encode_json({"images": rows})


def to_sarif(images: Sequence[CheckResult]) -> bytes:
    """One run with a result for each finding; waived findings are suppressed, with the reason."""
    names = sorted({finding.rule for image in images for finding in image.findings})
    rules = [
        {
            "id": name,
            "shortDescription": {"text": f"{RULES[name].title}."},
            "defaultConfiguration": {"level": RULES[name].severity},
        }
        for name in names
    ]
    results = [
        _result(image, finding, names.index(finding.rule)) for image in images for finding in image.findings
    ]
    return sarif(rules, results)


def _result(image: CheckResult, finding: ImageFinding, index: int) -> dict[str, Any]:
    subject = f"{image.name}@{image.digest}"
    where = finding.where or "image"
    made: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": finding.severity,
        "message": {"text": f"{image.name} {image.platform}: {where}: {finding.message}"},
        "locations": [{"logicalLocations": [{"name": where, "fullyQualifiedName": f"{subject}/{where}"}]}],
        "partialFingerprints": {"finding/v1": f"{image.name}/{image.platform}/{finding.rule}/{where}"},
    }
    if finding.waived:
        made["suppressions"] = [{"kind": "external", "justification": finding.waived}]
    return made


def to_junit(images: Sequence[CheckResult]) -> bytes:
    """A suite for each image, a case for each rule: failed by errors, skipped where all are waived."""
    return junit_xml("sandwright lint-image", map(_suite, images), counted=("failure", "skipped"))


def _suite(image: CheckResult) -> JunitSuite:
    name = f"{image.name} {image.platform}"
    return JunitSuite(name, [_case(image, name, rule) for rule in RULES])


def _case(image: CheckResult, name: str, rule: str) -> JunitCase:
    found = [finding for finding in image.findings if finding.rule == rule]
    open_ones = [each for each in found if not each.waived]
    text = "\n".join(f"{each.where}: {each.message}" for each in open_ones or found)
    if open_ones and RULES[rule].severity == "error":
        return JunitCase(rule, name, "failure", _escape_unprintable(text))
    if open_ones:
        return JunitCase(rule, name, "system-out", text=_escape_unprintable(text))
    if found:
        return JunitCase(rule, name, "skipped", _escape_unprintable(f"{text}; accepted: {found[0].waived}"))
    return JunitCase(rule, name)


def _escape_unprintable(text: str) -> str:
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _encode_json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
