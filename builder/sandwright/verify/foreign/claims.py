"""The promises of a sandbox command: its policy, in our terms, and the features that it does not claim.

A file of promises contains only data. In a command or a file of settings, `{read}`, `{write}` and the other
names of `PLACES` are replaced by this run's paths; `{for: denied, words: [--tmpfs, "{path}"]}` in a list is
repeated for each path of a kind.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from sandwright.documents.decode import decode
from sandwright.documents.document import MAX_BYTES, FieldErrors
from sandwright.documents.model import ValueCheck
from sandwright.documents.yaml import parse_yaml
from sandwright.errors import UsageError
from sandwright.methods import registry
from sandwright.policy.names import FEATURES
from sandwright.reading import quoting_no_link, read_named

SHIPPED = Path(__file__).with_name("shipped")
"""The files of promises that ship, by the subject's name."""

GENERIC = "generic"
"""The default promises of a command."""

PLACES = ("root", "bin", "read", "write", "files", "image", "path")
"""The names that are replaced: see docs/subject.md."""

GROUPS = ("denied", "denied-plain", "denied-directories", "denied-files", "readonly", "readable")
"""The kinds of paths that a list is repeated for."""

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,60}")
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")
_PLACE = re.compile(r"\{([a-z-]+)\}")


def _check_subject_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("is no name: lower-case letters, digits, dots and dashes")
    return text


def _engine(text: str) -> str:
    engines = [name for name in registry.policy_names() if registry.properties(name).engine]
    if text and text not in engines:
        raise ValueError(f"is none of the engines {', '.join(engines)}")
    return text


def _check_file_names(files: Mapping[str, Any]) -> Mapping[str, Any]:
    wrong = [((name,), "is no plain file name") for name in files if not _FILE.fullmatch(name)]
    if wrong:
        raise FieldErrors(wrong)
    return files


def _reasons(reasons: Mapping[str, str]) -> Mapping[str, str]:
    wrong = [((name,), "needs a reason") for name, reason in reasons.items() if not reason.strip()]
    wrong += [
        ((name,), "is neither a feature of policies nor the name of a probe, FAMILY/NAME")
        for name in reasons
        if name not in FEATURES and "/" not in name
    ]
    if wrong:
        raise FieldErrors(wrong)
    return reasons


@dataclass(frozen=True, kw_only=True)
class Promises:
    """One file of promises."""

    schema_version: Literal[1] = field(metadata={"key": "schema"})
    name: Annotated[str, ValueCheck(_check_subject_name)]
    """Its name in reports."""

    about: str
    """A description in one line."""

    version: tuple[str, ...] = ()
    """The command that prints its version."""

    command: tuple[Any, ...] = ()
    """The words before the command that is to run in it; `--subject` overrides them."""

    files: Annotated[dict[str, Any], ValueCheck(_check_file_names)] = field(default_factory=dict)
    """Files of settings, by name: text as it is, anything else as JSON. They are in `{files}`."""

    at: str = ""
    """The directory to plant in, for commands whose settings name fixed paths. It must not exist."""

    cwd: str = ""
    """The directory in which the command starts; absent: the current one."""

    root: Literal["host", "image"] = "host"
    """The owner of the files at its root."""

    image: Annotated[str, ValueCheck(_engine)] = ""
    """The engine that is given an empty image, `{image}`."""

    policy: dict[str, Any]
    """Its settings, in the form of sandbox.yaml; the run's planted files are granted in addition."""

    not_promised: Annotated[dict[str, str], ValueCheck(_reasons)] = field(default_factory=dict)
    """Features that it does not promise, or patterns of probes' names (`*`), with the reason."""


def read_promises(named: str) -> Promises:
    """The promises in a file, or of a subject that ships. Raise UsageError, and DocumentError for a fault."""
    path = SHIPPED / f"{named}.yaml" if named in shipped_subjects() else Path(named)
    try:
        content = read_named(path, limit=MAX_BYTES)
    except OSError as error:
        names = ", ".join(shipped_subjects())
        raise UsageError(
            f"cannot read the promises {named}: {error.strerror}; shipped are those of {names}"
        ) from None
    with quoting_no_link(path, named):
        return decode(Promises, parse_yaml(content, file=path.name if named in shipped_subjects() else named))


def shipped_subjects() -> tuple[str, ...]:
    """The subjects that ship."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.yaml")))


def policy_text(promises: Promises) -> str:
    """The policy as a separate document."""
    return yaml.safe_dump({"schema": 1, "extends": [], **promises.policy}, sort_keys=False)


def expand_template(template: object, places: Mapping[str, str], groups: Mapping[str, Sequence[str]]) -> Any:  # noqa: ANN401
    """A value with the paths of this run filled in. Raise UsageError for an unknown name."""
    if isinstance(template, str):
        return _PLACE.sub(lambda found: _expand_path_name(found[1], places), template)
    if isinstance(template, Mapping):
        return {name: expand_template(value, places, groups) for name, value in template.items()}
    if isinstance(template, (list, tuple)):
        return [each for item in template for each in _expand_item(item, places, groups)]
    return template


def _expand_item(
    item: object, places: Mapping[str, str], groups: Mapping[str, Sequence[str]]
) -> Iterator[Any]:
    """Expand an item of a list: itself, or a group of words for each path of a kind."""
    if not isinstance(item, Mapping) or "for" not in item:
        yield expand_template(item, places, groups)
        return
    if set(item) != {"for", "words"} or item["for"] not in groups:
        raise UsageError(f"a list is repeated by `for` ({', '.join(groups)}) and `words`, and nothing else")
    for path in groups[item["for"]]:
        yield from expand_template(item["words"], {**places, "path": path}, groups)


def _expand_path_name(name: str, places: Mapping[str, str]) -> str:
    if name not in places:
        raise UsageError(
            f"there is no {{{name}}} here; there is {', '.join(f'{{{each}}}' for each in places)}"
        )
    return places[name]
