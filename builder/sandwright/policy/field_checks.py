"""Checks for the leaves of the model: each takes a text as written and gives it back, or raises ValueError.

The texts stay as written, so that every report can show them; meaning is given when the policy is resolved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sandwright.documents.document import FieldErrors
from sandwright.policy import hosts, http_rules, spelling, values
from sandwright.policy.names import (
    CACHES,
    FEATURES,
    FRAGMENTS,
    GIT_GRANTS,
    METHODS,
    PRESETS,
    SECCOMP_PROFILES,
)
from sandwright.policy.phrasing import one_of, quoted
from sandwright.policy.values import INHERITED, UNLIMITED

Schema = dict[str, Any]

REASON_SCHEMA: Schema = {"type": "string", "minLength": 1}
METHOD_SCHEMA: Schema = {"type": "string", "enum": list(METHODS)}
PRESET_SCHEMA: Schema = {"type": "string", "enum": list(PRESETS)}
FRAGMENT_SCHEMA: Schema = {
    "type": "string",
    "anyOf": [
        {"type": "string", "enum": [*FRAGMENTS, INHERITED]},
        {"type": "string", "pattern": r"^mach-(lookup|register):[^:]+$"},
    ],
}
GIT_SCHEMA: Schema = {"type": "string", "enum": [*GIT_GRANTS, INHERITED]}
CACHE_SCHEMA: Schema = {"type": "string", "enum": [*CACHES, INHERITED]}
SIGNING_SCHEMA: Schema = {
    "type": "string",
    "pattern": r"^(~/.*|/.*|SHA256:[A-Za-z0-9+/]{43}|gpg:[0-9A-Fa-f]{40}|\.\.\.)$",
    "examples": ["~/.ssh/id_ed25519.pub"],
}
FEATURE_SCHEMA: Schema = {"type": "string", "enum": list(FEATURES)}
PATH_SCHEMA: Schema = {
    "type": "string",
    "pattern": r"^([/~$].*|\.\.\.)$",
    "examples": ["$PROJECT", "~/.cache"],
}
_HOST: Schema = {"type": "string", "minLength": 1, "examples": ["github.com", "*.example.org:8443"]}
HOST_SCHEMA: Schema = {
    "anyOf": [
        _HOST,
        {
            "type": "object",
            "properties": {
                "host": {**_HOST, "description": "A host as in the list, such as `mirror.example:8443`."},
                "private": {
                    "type": "boolean",
                    "description": "Whether the name may resolve to a private address. Absent: it may not.",
                },
            },
            "required": ["host"],
            "additionalProperties": False,
        },
    ]
}
INHERITED_SCHEMA: Schema = {"const": INHERITED}
PORT_SCHEMA: Schema = {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 65535}, {"const": INHERITED}]}
CPUS_SCHEMA: Schema = {"anyOf": [{"type": "number", "minimum": 0.001, "maximum": 4096}, {"const": UNLIMITED}]}
COUNT_SCHEMA: Schema = {"anyOf": [{"type": "integer", "minimum": 1}, {"const": UNLIMITED}]}
SECRETS_SCHEMA: Schema = {
    "type": "object",
    "additionalProperties": {"type": "string", "pattern": r"^\$\{[A-Za-z_][A-Za-z0-9_]*\}$"},
}

_FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}|gpg:[0-9A-Fa-f]{40}")

reason = values.reason
variable = values.variable
program = values.program
image = values.image
variable_text = spelling.checked_text
path = spelling.checked_path


def method(name: str, registered: Iterable[str]) -> str:
    """A shipped method, or one that the caller lists as registered."""
    return one_of(name, dict.fromkeys([*METHODS, *registered]), what="method")


def methods(names: tuple[str, ...]) -> tuple[str, ...]:
    """Methods to try in order: at least one, and none that enforces nothing."""
    if not names:
        raise ValueError("must name at least one method")
    if "noop" in names:
        fault = "noop enforces nothing, so only `method: noop` can choose it"
        raise FieldErrors([((names.index("noop"),), fault)])
    return names


def preset(name: str) -> str:
    """A shipped preset."""
    return one_of(name, PRESETS, what="preset")


def fragment(name: str) -> str:
    """A fragment of the Seatbelt profile, a Mach service, or `...`."""
    if values.mach_service(name) is not None:
        return name
    return one_of(name, (*FRAGMENTS, INHERITED), what="fragment")


def cache(name: str) -> str:
    """A cache that a project may keep, or `...`."""
    return one_of(name, (*CACHES, INHERITED), what="cache")


def git(name: str) -> str:
    """A grant about Git, or `...`."""
    return one_of(name, (*GIT_GRANTS, INHERITED), what="grant")


def signing_key(text: str) -> str:
    """A key that signs, or `...`: a path without variables, or a fingerprint."""
    if text == INHERITED or _FINGERPRINT.fullmatch(text):
        return text
    if not text.startswith(("~/", "/")) or "$" in text:
        raise ValueError(
            f"{quoted(text)} is no key: give the path of a public key (~/.ssh/id_ed25519.pub), SHA256: and a "
            "fingerprint as ssh-add -l prints it, or gpg: and the 40 digits of a fingerprint"
        )
    return path(text)


def feature(name: str) -> str:
    """A feature that a method might not support."""
    return one_of(name, FEATURES, what="feature")


def version(number: int) -> int:
    """The version of the format. A later one than ours is refused before anything else is looked at."""
    if number != 1:
        raise ValueError(f"must be 1, not {number}")
    return number


def path_or_inherited(text: str) -> str:
    """A path, or `...`."""
    return text if text == INHERITED else path(text)


def protected_name(text: str) -> str:
    """A name below a writable path: relative, one or more components, no variables."""
    if text.startswith(("/", "~", "$")):
        raise ValueError(
            f"{quoted(text)} must be relative to the writable paths, like .git/hooks; use readonly"
        )
    if not text or text != spelling.plain_spelling(f"/{text}")[1:]:
        raise ValueError(f"{quoted(text)} must be a relative path without '.', '..' or double slashes")
    if "*" in text or "?" in text:
        raise ValueError(f"{quoted(text)} holds a glob; name the file or directory itself")
    return text


def host_or_inherited(value: object) -> str | hosts.ListedHost:
    """A pattern of hosts, `...`, or a mapping of a pattern to whether its names may be private."""
    if isinstance(value, str):
        return value if value == INHERITED else _check_with(hosts.host_pattern, value)
    if not isinstance(value, Mapping):
        raise ValueError("must be a host, or a mapping like {host: mirror.example, private: true}")
    faults: list[tuple[tuple[str, ...], str]]
    faults = [((name,), "no such key; there is host, private") for name in value.keys() - _HOST_KEYS]
    host, private = value.get("host"), value.get("private", False)
    if not isinstance(host, str) or host == INHERITED:
        faults.append((("host",) if "host" in value else (), "host must be a host, like mirror.example"))
    if not isinstance(private, bool):
        faults.append((("private",), "must be true or false"))
    if faults:
        raise FieldErrors(faults)
    item = hosts.ListedHost(str(host), bool(private))
    try:
        hosts.listed_pattern(item)
    except ValueError as error:
        raise FieldErrors([(("host",), str(error))]) from None
    return item


_HOST_KEYS = frozenset(("host", "private"))


def inherited(text: str) -> str:
    """`...`, which stands for the inherited list."""
    if text != INHERITED:
        raise ValueError(f"must be a mapping, or {INHERITED} for the inherited list, not {quoted(text)}")
    return text


def http_host(text: str) -> str:
    """The host of an HTTP rule. The port may be left out if it is 443."""
    http_rules.http_host(text)
    return text


def port_or_inherited(value: int | str) -> int | str:
    """A port, or `...`."""
    if isinstance(value, str):
        if value != INHERITED:
            raise ValueError(f"must be a port, 1 to 65535, not {quoted(value)}")
        return value
    return values.port(value)


def seccomp(text: str) -> str:
    """The name of a profile, or the path of a file."""
    if text.startswith(("/", "~", "$")):
        return path(text)
    return one_of(text, SECCOMP_PROFILES, what="profile (name a file by its absolute path)")


def variable_or_inherited(text: str) -> str:
    """A pattern of variables, or `...`."""
    return text if text == INHERITED else values.variable_pattern(text)


def secrets(value: object) -> dict[str, str]:
    """Variables of a shim and the host's they are filled from. No message repeats the given value."""
    if not isinstance(value, Mapping):
        raise ValueError("must be a mapping of variables to references like ${SANDBOX_GH_TOKEN}")
    faults = []
    for name, text in value.items():
        try:
            values.variable(name)
            values.secret_reference(text if isinstance(text, str) else "")
        except ValueError as error:
            faults.append(((name,), str(error)))
    if faults:
        raise FieldErrors(faults)
    return dict(value)


def command(text: str) -> str:
    """Arguments that a shim lets through."""
    return _check_with(values.command, text)


def size(text: str) -> str:
    """A number of bytes, or `unlimited`."""
    return text if text == UNLIMITED else _check_with(values.size, text)


def duration(text: str) -> str:
    """A time, or `unlimited`."""
    return text if text == UNLIMITED else _check_with(values.duration, text)


def cpus(amount: float | str) -> float | str:
    """A number of processors, or `unlimited`."""
    return _unlimited(amount) if isinstance(amount, str) else values.cpus(amount)


def count(amount: int | str) -> int | str:
    """A number of things, or `unlimited`."""
    return _unlimited(amount) if isinstance(amount, str) else values.count(amount)


def _unlimited(text: str) -> str:
    if text != UNLIMITED:
        raise ValueError(f"must be a number, or unlimited, not {quoted(text)}")
    return text


def _check_with(parse: Callable[[str], object], text: str) -> str:
    parse(text)
    return text
