"""The origin of a report: the policy's text, and the project and commit that it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright.documents.document import Document, Position
from sandwright.git import history
from sandwright.policy.load import Layer
from sandwright.policy.secretnames import why_secret
from sandwright.session.request import RunRequest

HIDDEN = "(not shown)"

_TELLING = 6
"""The length from which on a value is also removed from the rest of the text."""


@dataclass(frozen=True)
class PolicyOrigin:
    """The origin of a policy. `commit` is empty if there is none, `settings` are those of this run."""

    project: str = ""
    commit: str = ""
    text: str = ""
    settings: tuple[str, ...] = ()


def origin(layers: Sequence[Layer], request: RunRequest) -> PolicyOrigin:
    """The origin of a run's policy: the project's file, if there is one, and the settings of the run."""
    settings = (*(f"preset={name}" for name in request.presets), *map(_redact_setting, request.settings))
    project = str(Path(request.policy).parent)
    for layer in layers:
        if layer.kind == "project":
            content = Path(layer.file).read_bytes() if layer.file else b""
            text = redact_values(content.decode("utf-8-sig", "replace"), layer.document)
            return PolicyOrigin(project, _commit(layer, content), text, settings)
    return PolicyOrigin(project, settings=settings)


def _commit(layer: Layer, content: bytes) -> str:
    if layer.file is None or not (commit := history.head_commit(Path(layer.file).parent)):
        return ""
    same = history.is_committed(Path(layer.file), content)
    return f"{commit}, {'which has this policy' if same else 'which has another policy, or none'}"


def _redact_setting(text: str) -> str:
    name, _, _ = text.partition("=")
    return f"{name}={HIDDEN}" if name.startswith("environment.set") else text


def redact_values(text: str, document: Document) -> str:
    """A policy's text without the values of variables that look like secrets."""
    data = document.data if isinstance(document.data, dict) else {}
    environment = data.get("environment")
    variables = environment.get("set") if isinstance(environment, dict) else None
    names = [name for name in variables if why_secret(name)] if isinstance(variables, dict) else []
    values = [str(variables[name]) for name in names] if isinstance(variables, dict) else []
    keys = sorted(document.key_marks.values())
    begins = (document.position(("environment", "set", name)) for name in names)
    for begin in sorted(begins, reverse=True):
        end = next((key for key in keys if key > begin), None)
        text = _cut_span(text, begin, end)
    for value in values:
        text = text.replace(value, HIDDEN) if len(value) >= _TELLING else text  # anchors, comments
    return text


def _cut_span(text: str, begin: Position, end: Position | None) -> str:
    """The text without the part between two positions; the second is the next key's, or the end."""
    lines = text.splitlines(keepends=True)
    before = "".join([*lines[: begin[0] - 1], lines[begin[0] - 1][: begin[1] - 1]])
    if end is None:
        return f"{before}{HIDDEN}\n"
    indent = lines[end[0] - 1][: end[1] - 1] if end[0] > begin[0] else " "
    broken = "\n" if end[0] > begin[0] else ""
    return "".join([before, HIDDEN, broken, indent, lines[end[0] - 1][end[1] - 1 :], *lines[end[0] :]])
