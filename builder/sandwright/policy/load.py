"""Reads the layers of a policy: files, texts, shipped presets, the options of one run.

`floor` in names is the managed policy. `policy.merged` merges the layers.
"""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from sandwright import user_dirs
from sandwright.documents.decode import decode
from sandwright.documents.document import MAX_BYTES, Document, Value, field_name, without_positions
from sandwright.documents.document import Path as FieldPath
from sandwright.documents.yaml import parse_yaml
from sandwright.errors import DocumentError, Problem, UsageError
from sandwright.policy.model import PolicyFile
from sandwright.policy.names import PRESETS
from sandwright.policy.provenance import PolicySource, Sourced
from sandwright.policy.retired_keys import rename_keys
from sandwright.questions import is_placeholder
from sandwright.reading import open_named, quoting_no_link

LayerKind = Literal["built-in", "preset", "floor", "user", "project", "run"]

VERSION = 1
"""The version of the format that is read."""

FLOOR = Path("/etc/sandwright/floor.yaml")
"""The managed policy."""

PROJECT_FILE = "sandbox.yaml"
"""The name of a project's own policy."""

_SHIPPED = Path(__file__).parent / "presets"
_SECTIONS = ("filesystem", "network", "process", "environment", "credentials", "user", "resources", "gvisor")


@dataclass(frozen=True, eq=False)
class Layer:
    """One document with a part of a policy.

    `file` is its path, None for a layer without a file on the host. `retired` warns
    of names of the last release, which `document` no longer has. `items` are those of its lists that were
    merged so far, by field, with their places.
    """

    kind: LayerKind
    document: Document
    policy: PolicyFile
    preset: str = ""
    file: str | None = None
    retired: tuple[Problem, ...] = ()
    items: dict[str, tuple[Sourced[Any], ...]] = field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        """The layer's name in messages."""
        return f"preset {self.preset}" if self.preset else self.kind

    def source(self, path: FieldPath) -> PolicySource:
        """The position of a value in the document."""
        line, column = self.document.position(path)
        return PolicySource(self.name, self.document.file, line, column, field_name(path))


def layer(
    text: str | bytes, *, kind: LayerKind = "project", file: str = "sandbox.yaml", methods: Iterable[str] = ()
) -> Layer:
    """Parse the text of a layer. `file` is its name for messages; `methods` are registered ones beside ours.

    A text without content sets no field. Raise DocumentError with all faults; for a later version of the
    format, the version is the only one.
    """
    return _decode_layer(parse_yaml(text, file=file), kind=kind, methods=methods)


def read_layer(
    path: Path | str, *, kind: LayerKind = "project", methods: Iterable[str] = (), display_name: str = ""
) -> Layer:
    """The layer in a file, which messages call `display_name`, by default as it is given.

    Raise UsageError when it can't be read, DocumentError like `layer`.
    """
    display_name = display_name or str(path)
    try:
        with open_named(path) as stream:
            text = stream.read(MAX_BYTES + 1)  # more is refused; a device may have no end
    except OSError as error:
        absent = not is_there(Path(path))
        why = os.strerror(errno.ENOENT) if absent else error.strerror
        hint = "; `sandwright init` proposes one" if absent and Path(path).name == PROJECT_FILE else ""
        raise UsageError(f"cannot read the {kind} policy {display_name}: {why}{hint}") from None
    with quoting_no_link(path, display_name):
        found = layer(text, kind=kind, file=display_name, methods=methods)
    return replace(found, file=str(Path(path).absolute()))


@functools.cache
def built_in() -> Layer:
    """The layer below all others: the defaults."""
    return _preset_layer("built-in", kind="built-in")


@functools.cache
def preset(name: str) -> tuple[Layer, ...]:
    """The layers of a preset: those it extends, then its own."""
    shipped = replace(_preset_layer(name, kind="preset"), preset=name)
    return *presets(shipped.policy.extends or ()), shipped


def presets(names: Iterable[str]) -> tuple[Layer, ...]:
    """The layers of some presets, each layer once, where it first stands."""
    return tuple(dict.fromkeys(each for name in names for each in preset(name)))


def given_presets(names: Sequence[str], base: Iterable[str], *, image: bool) -> tuple[Layer, ...]:
    """The additional layers of presets over those of a policy's base, for this run.

    Raise UsageError for no preset.

    Without `image`, their image is ignored: the policy's own stays.
    """
    for name in names:
        preset_text(name)
    below = presets(base)
    beyond = (each for each in presets(names) if each not in below)
    policies = (
        (each, replace(each.policy, extends=None, image=each.policy.image if image else None))
        for each in beyond
    )
    return tuple(replace(each, kind="run", preset="", policy=policy) for each, policy in policies)


def path_grant_layer(paths: Iterable[str], *, what: str) -> Layer:
    """A layer of this run that lets some paths be read. `what` is its name for messages."""
    spelled: list[Value] = ["...", *(path.replace("$", "$$") for path in paths)]
    return _decode_layer(without_positions({"filesystem": {"read": spelled}}, file=what), kind="run")


def exceptions_layer(paths: Iterable[str], *, reason: str, what: str) -> Layer:
    """A layer of this run that lifts protections at some paths. `what` is its name for messages."""
    items: list[Value] = [{"path": path.replace("$", "$$"), "reason": reason} for path in paths]
    return _decode_layer(without_positions({"filesystem": {"unprotect": items}}, file=what), kind="run")


def preset_text(name: str) -> str:
    """A shipped preset as it is written, comments included. Raise UsageError for an unknown one."""
    if name not in (*PRESETS, "built-in"):
        raise UsageError(f"there is no preset {name!r}; there is {', '.join(PRESETS)}")
    return (_SHIPPED / f"{name}.yaml").read_text(encoding="utf-8")


def layers_for(
    project: Path | str,
    environ: Mapping[str, str],
    *,
    settings: Sequence[str] = (),
    methods: Iterable[str] = (),
) -> tuple[Layer, ...]:
    """The layers that hold for a project, from where they are kept, as far as they exist.

    The operator's floor is `FLOOR`, which nothing in `environ` changes; the user's is
    `$XDG_CONFIG_HOME/sandwright/policy.yaml` (`~/.config` without that); the project's is `sandbox.yaml` in
    it. `settings`, `SANDBOX_METHOD` and `SANDBOX_REASON` make the layer of this run. Raise like
    `read_layer` and `run_layer`.
    """
    files: list[tuple[LayerKind, Path]] = [("floor", FLOOR), ("project", Path(project) / PROJECT_FILE)]
    files += [("user", user_file(environ))]
    registered = tuple(methods)
    found = [read_layer(file, kind=kind, methods=registered) for kind, file in files if is_there(file)]
    run = run_layer(settings, method=environ.get("SANDBOX_METHOD"), reason=environ.get("SANDBOX_REASON"))
    return *found, *([run] if run else [])


def user_file(environ: Mapping[str, str]) -> Path:
    """The path of the user's policy; a variable that is no absolute path does not move it (`user_dirs`)."""
    config, home = (environ.get(name, "") for name in ("XDG_CONFIG_HOME", "HOME"))
    if not config.startswith("/"):
        config = f"{home if home.startswith('/') else user_dirs.home()}/.config"
    return Path(config, user_dirs.NAME, "policy.yaml")


def run_layer(
    settings: Sequence[str] = (), *, method: str | None = None, reason: str | None = None
) -> Layer | None:
    """The layer of one run, from `field=value` settings such as `network.mode=none`; None without any.

    A value is read as YAML: `filesystem.write=[$PROJECT, /data]`. `method` is the value of `SANDBOX_METHOD`,
    `reason` the reason to enforce nothing if that is `noop`. Raise UsageError for a setting without `=` or a
    field set twice, DocumentError for an invalid field or value.
    """
    data: dict[str, Value] = {}
    for pair in settings:
        _apply_setting(data, pair)
    for key, text in (("method", method), ("reason", reason)):
        if text and key in data:
            raise UsageError(f"{key} is set twice")
        data.update({key: text} if text else {})
    return _decode_layer(without_positions(data, file="the command line"), kind="run") if data else None


def is_there(file: Path) -> bool:
    """Whether there is a file, or an obstacle that reading it will report.

    A link that leads nowhere, also one on the way, may be of a disk that isn't mounted. The placeholder that
    a session puts into a project, to block that name, is not a policy.
    """
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return any(each.is_symlink() and not each.exists() for each in (file, *file.parents))
    except OSError:
        return True
    return not (file.name == PROJECT_FILE and is_placeholder(str(file), status))


def _apply_setting(data: dict[str, Value], pair: str) -> None:
    name, equals, text = pair.partition("=")
    if not equals or not name:
        raise UsageError(f"{pair!r} is no setting; write field=value, like network.mode=none")
    *parents, last = name.split(".")
    mapping = data
    for parent in parents:
        nested = mapping.setdefault(parent, {})
        if not isinstance(nested, dict):
            raise UsageError(f"{name} is set inside {parent}, which is set too")
        mapping = nested
    if last in mapping:
        raise UsageError(f"{name} is set twice")
    mapping[last] = parse_yaml(text, file=pair).data


def _preset_layer(name: str, *, kind: LayerKind) -> Layer:
    text = (_SHIPPED / f"{name}.yaml").read_bytes()
    return layer(text, kind=kind, file=f"presets/{name}.yaml")


def _decode_layer(parsed: Document, *, kind: LayerKind, methods: Iterable[str] = ()) -> Layer:
    parsed = parsed if parsed.data is not None else replace(parsed, data={})
    _refuse_later_version(parsed)
    parsed, retired, both = rename_keys(parsed)
    problems = [*both, *_nulls(parsed), *_contradictions(parsed)]
    try:
        policy = decode(PolicyFile, parsed, context=tuple(methods))
    except DocumentError as error:
        reported = {problem.field for problem in problems}
        found = [_about_home(problem) for problem in error.problems if problem.field not in reported]
        raise DocumentError(parsed.file, [*retired, *problems, *found]) from None
    if problems:
        raise DocumentError(parsed.file, [*retired, *problems])
    return Layer(kind, parsed, policy, retired=retired)


def _about_home(problem: Problem) -> Problem:
    """In lists of paths a null is nearly always a `~` without quotes."""
    if problem.field.startswith("filesystem.") and problem.message == "must be text, not null":
        return problem._replace(message="must be text; a ~ alone is YAML's null, write $HOME")
    return problem


def _refuse_later_version(parsed: Document) -> None:
    version = parsed.data.get("schema") if isinstance(parsed.data, dict) else None
    if type(version) is int and version > VERSION:
        message = f"is version {version} of the format; this sandwright reads {VERSION}. Install a newer one"
        raise DocumentError(parsed.file, [Problem(*parsed.position(("schema",)), "schema", message)])


def _nulls(parsed: Document) -> Iterator[Problem]:
    """Keys with nothing behind them, which decoding takes for keys that are not there."""
    if not isinstance(parsed.data, dict):
        return
    places: list[tuple[FieldPath, Mapping[str, Value]]] = [((), parsed.data)]
    for name in _SECTIONS:
        section = parsed.data.get(name)
        if isinstance(section, dict):
            places.append(((name,), section))
    for path, mapping in places:
        for key, value in mapping.items():
            if value is None:
                message = "has no value; leave the key out, or write [] for an empty list"
                yield Problem(*parsed.position((*path, key)), field_name((*path, key)), message)


def _contradictions(parsed: Document) -> Iterator[Problem]:
    """Faults between keys: keys that exclude or require each other."""
    data = parsed.data
    if not isinstance(data, dict):
        return
    if "method" in data and "methods" in data:
        yield _at_key(parsed, "methods", "excludes method; name one method, or several in order")
    if data.get("method") == "noop" and not data.get("reason"):
        yield _at_key(
            parsed, "method", "noop enforces nothing and needs a reason: reason: why that is acceptable"
        )
    if "reason" in data and data.get("method") != "noop":
        yield _at_key(parsed, "reason", "is only for method: noop")


def _at_key(parsed: Document, key: str, message: str) -> Problem:
    return Problem(*parsed.key_position((key,)), key, message)
