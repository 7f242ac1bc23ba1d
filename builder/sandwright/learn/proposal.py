"""A proposed policy: its grants, as settings of a run, and as an edit of the policy's text. Pure.

Names that a program inside chose stand between double quotes, unless they consist of harmless characters, and
never in a comment.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from sandwright.documents.yaml import parse_yaml
from sandwright.errors import DocumentError, UsageError
from sandwright.policy.facts import HostFacts
from sandwright.policy.spelling import checked_path
from sandwright.visible import visible

_PLAIN = re.compile(r"(?:[$/]|~/)[$A-Za-z0-9_./+~-]*|[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)+")


@dataclass(frozen=True)
class Item:
    """A value of a list, and the reason for it, without text from the command.

    `private`: a host's address may be one.
    """

    value: str | int
    why: str
    private: bool = False

    def policy_value(self) -> str | int | dict[str, Any]:
        """The value as a policy has it."""
        return {"host": self.value, "private": True} if self.private else self.value

    def text(self) -> str:
        """The value as YAML."""
        text = _yaml_scalar(self.value)
        return f"{{host: {text}, private: true}}" if self.private else text


@dataclass(frozen=True)
class RuleItem(Item):
    """A rule of `network.http`. `value` names it for people."""

    rule: Mapping[str, Any] = field(default_factory=dict)

    def policy_value(self) -> dict[str, Any]:
        """The rule as a policy has it."""
        return dict(self.rule)

    def text(self) -> str:
        """The rule as YAML."""
        return _flow(self.rule)


@dataclass(frozen=True)
class Proposal:
    """The proposed grants. A field that is None stays as it is."""

    read: tuple[Item, ...]
    write: tuple[Item, ...]
    allow: tuple[Item, ...] | None = None
    mode: str | None = None
    localhost: tuple[Item, ...] | None = None
    unix_sockets: tuple[Item, ...] | None = None
    seccomp: str | None = None
    variables: tuple[Item, ...] | None = None
    http: tuple[Item, ...] | None = None

    def settings(self) -> list[str]:
        """The settings of a run that have the same effect."""
        lines = []
        for (section, key), value in self._fields().items():
            listed = value if isinstance(value, str) else ", ".join(each.text() for each in value)
            lines.append(f"{section}.{key}={listed if isinstance(value, str) else f'[{listed}]'}")
        return lines

    def without(self, item: Item) -> Proposal:
        """The proposal without one grant."""

        def remaining(items: tuple[Item, ...]) -> tuple[Item, ...]:
            return tuple(each for each in items if each is not item)

        optional = {
            name: None if (listed := getattr(self, name)) is None else remaining(listed)
            for name in ("allow", "http", "localhost", "unix_sockets", "variables")
        }
        return Proposal(
            remaining(self.read), remaining(self.write), mode=self.mode, seccomp=self.seccomp, **optional
        )

    def items(self) -> tuple[Item, ...]:
        """Every grant that can be left out."""
        lists = (
            self.read,
            self.write,
            self.allow,
            self.http,
            self.localhost,
            self.unix_sockets,
            self.variables,
        )
        return tuple(each for items in lists for each in items or ())

    def edit(self, text: str) -> str:
        """A policy's text with these fields replaced; the rest stays, with its comments.

        A text that isn't in block style, or has anchors, is written anew.
        """
        expected = _parse_mapping(text)
        for (section, key), value in self._fields().items():
            new_value = value if isinstance(value, str) else [each.policy_value() for each in value]
            expected[section] = {**(expected.get(section) or {}), key: new_value}
        for attempt in (text, yaml.safe_dump(_parse_mapping(text), sort_keys=False, allow_unicode=True)):
            edited = self._edited(attempt)
            if edited is not None and _parse_mapping(edited) == expected:
                return edited
        raise UsageError("cannot edit the policy's text: write it in block style")

    def _edited(self, text: str) -> str | None:
        """Edit it as block style is edited; None where it is no YAML after that."""
        try:
            for (section, key), value in self._fields().items():
                text = _with_field(text, section, key, list(_field_lines(key, value)))
            parse_yaml(text, file="sandbox.yaml")
        except (yaml.YAMLError, DocumentError):
            return None
        return text

    def _fields(self) -> Mapping[tuple[str, str], str | tuple[Item, ...]]:
        fields: dict[tuple[str, str], str | tuple[Item, ...] | None] = {
            ("filesystem", "read"): self.read,
            ("filesystem", "write"): self.write,
            ("network", "mode"): self.mode,
            ("network", "allow"): self.allow,
            ("network", "http"): self.http,
            ("network", "localhost"): self.localhost,
            ("network", "unix_sockets"): self.unix_sockets,
            ("process", "seccomp"): self.seccomp,
            ("environment", "pass"): self.variables,
        }
        return {name: value for name, value in fields.items() if value is not None}


def difference(old: str | None, new: str, name: str) -> str:
    """The change of the file, in the format of `diff -u`."""
    before = [] if old is None else old.splitlines(keepends=True)
    lines = difflib.unified_diff(
        before, new.splitlines(keepends=True), "/dev/null" if old is None else name, name
    )
    return visible("".join(each if each.endswith("\n") else f"{each}\n" for each in lines))


def policy_path(path: str, facts: HostFacts) -> str | None:
    """A canonical path as a policy writes it; None for one that no policy can name."""
    written = path.replace("$", "$$")
    for name, prefix in (("$PROJECT", facts.project), ("~", facts.home)):
        if path == prefix or path.startswith(f"{prefix.rstrip('/')}/"):
            written = name + path[len(prefix) :].replace("$", "$$")
            written = "$HOME" if written == "~" else written
            break
    try:
        checked_path(written)
        path.encode()
    except ValueError:
        return None
    return written if path.isprintable() else None


def _parse_mapping(text: str) -> dict[str, Any]:
    found = parse_yaml(text, file="sandbox.yaml").data
    return dict(found) if isinstance(found, dict) else {}


_COMMENTS = {
    "mode": {"none": "no host was reached", "proxy": "hosts were reached"},
    "seccomp": {
        "strict": "the narrowest filter of system calls",
        "default": "`strict` is not enough",
        "build": "neither `strict` nor `default` is enough",
    },
}
_EMPTY = {
    "read": "only the files that programs need to start, and writable ones",
    "write": "nothing of the host was changed",
}


def _field_lines(key: str, value: str | tuple[Item, ...]) -> Iterator[str]:
    if isinstance(value, str):
        yield f"  {key}: {value}  # learned: {_COMMENTS[key][value]}"
    elif not value:
        yield f"  {key}: []  # learned: {_EMPTY.get(key, 'none was used')}"
    else:
        yield f"  {key}:"
        yield from (f"    - {each.text()}  # learned: {each.why}" for each in value)


def _flow(value: object) -> str:
    """A value of a rule in flow style."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_flow(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    return str(value).lower() if isinstance(value, bool) else _yaml_scalar(str(value))


def _yaml_scalar(value: str | int) -> str:
    if isinstance(value, int) or _PLAIN.fullmatch(value):
        return str(value)
    return f'"{"".join(map(_quoted, value))}"'


def _quoted(character: str) -> str:
    """A character between double quotes (YAML 1.2, 5.7)."""
    if character.isprintable() and character not in '"\\':
        return character
    return f"\\U{ord(character):08x}"


def _with_field(text: str, section: str, key: str, lines: Sequence[str]) -> str:
    """The text with a field of a section said by `lines`, which are indented by two."""
    rows = text.splitlines()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    found = _pair(root, section)
    if found is None:
        return "".join(f"{row}\n" for row in (*rows, f"{section}:", *lines))
    name, value = found
    if not isinstance(value, yaml.MappingNode) or value.flow_style:
        data = {
            each: section_data
            for each, section_data in (_parse_mapping(text).get(section) or {}).items()
            if each != key
        }
        other_fields = yaml.safe_dump(data, sort_keys=False, allow_unicode=True) if data else ""
        rest = [f"  {row}" for row in other_fields.splitlines() if other_fields.strip() != "{}"]
        rows[name.start_mark.line : _end_line(rows, value) + 1] = [f"{section}:", *rest, *lines]
        return "".join(f"{row}\n" for row in rows)
    section_data = _pair(value, key)
    margin = " " * value.start_mark.column
    shifted = [margin + row[2:] for row in lines]
    if section_data is None:
        at = _end_line(rows, value) + 1
        rows[at:at] = shifted
    else:
        rows[section_data[0].start_mark.line : _end_line(rows, section_data[1]) + 1] = shifted
    return "".join(f"{row}\n" for row in rows)


def _pair(mapping: Any, key: str) -> tuple[Any, Any] | None:  # noqa: ANN401 - PyYAML has no types
    pairs = mapping.value if isinstance(mapping, yaml.MappingNode) else []
    return next((pair for pair in pairs if pair[0].value == key), None)


def _end_line(rows: Sequence[str], node: Any) -> int:  # noqa: ANN401
    """The last line of a node: the end mark of a block stands where the next thing begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end_line(rows, last[1] if isinstance(node, yaml.MappingNode) else last)
    line = node.end_mark.line - (node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line)
    line = min(line, len(rows) - 1)
    while line > node.start_mark.line and (not rows[line].strip() or rows[line].lstrip().startswith("#")):
        line -= 1
    return int(line)
