"""Tasks about policies: what one becomes, what it says, and what is wrong with a profile."""

from __future__ import annotations

import difflib
import json as encoder
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.context import Context

from sandwright.cli import console
from sandwright.cli.command import command
from sandwright.cli.evaluators import read_file
from sandwright.errors import UsageError, VerdictError

if TYPE_CHECKING:
    from sandwright.policy.facts import HostFacts
    from sandwright.policy.policy import Policy
    from sandwright.policy.resolved import ResolvedPolicy
    from sandwright.render.artifact import Artifact
    from sandwright.render.methods import Rendered

POLICY_HELP = "the project's policy (absent: sandbox.yaml)"
SET_HELP = "a setting of this run, FIELD=VALUE such as network.mode=none; may be given several times"
MANIFEST = "manifest.json"
"""Beside a method's artifacts: the digest of each."""


@command(
    iterable=["method", "set"],
    help={
        "policy": POLICY_HELP,
        "method": "a method to render; may be given several times (absent: the policy's own)",
        "out": "directory; a method's artifacts go into one of its name below it (absent: .sandbox)",
        "facts": "render for the host that this JSON file tells of, not for this one",
        "set": SET_HELP,
        "check": "write nothing; fail when what is there is not what would be rendered",
        "diff": "write nothing; show what would change",
    },
)
def render(
    c: Context,  # noqa: ARG001
    *,
    policy: str = "sandbox.yaml",
    method: Sequence[str] | None = None,
    out: str = ".sandbox",
    facts: str = "",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    check: bool = False,
    diff: bool = False,
) -> None:
    """Render the artifacts of a policy, with a manifest of their digests."""
    from sandwright.render.methods import render as render_method  # noqa: PLC0415

    if not check and not diff:
        Path(out).mkdir(parents=True, exist_ok=True)  # before we look: the sandbox must not write it
    resolved = _resolved(policy, facts, set)
    stale = []
    for name in method or resolved.methods:
        rendered = render_method(resolved, name)
        for finding in rendered.findings:
            console.line(str(finding))
        directory = Path(out) / name
        changed = [each for each in _files(rendered) if _content(directory / each.name) != each.content]
        stale += [str(directory / each.name) for each in changed]
        if diff:
            _show_changes(directory, changed)
        elif not check:
            _write(directory, changed)
            console.line(f"{directory}: {len(rendered.artifacts)} artifacts, {len(changed)} files written")
    if check and stale:
        raise VerdictError(f"not what the policy renders to: {', '.join(stale)}")


@command(
    iterable=["set"],
    help={
        "question": "read, write, connect or env; first word of `sandwright explain`",
        "subject": "a path, HOST:PORT or socket, or variable; second word",
        "policy": POLICY_HELP,
        "facts": "explain for the host that this JSON file tells of, not for this one",
        "set": SET_HELP,
        "json": "answer as one JSON object",
    },
)
def explain(
    c: Context,  # noqa: ARG001
    *,
    question: str = "",
    subject: str = "",
    policy: str = "sandbox.yaml",
    facts: str = "",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    json: bool = False,
) -> None:
    """Say what a policy answers to a question, by which rule of which layer."""
    if not question or not subject:
        raise UsageError("usage: sandwright explain read|write|connect|env SUBJECT [--policy FILE]")
    answer = _load(policy, set).explain(question, subject, _facts(facts))
    console.line(encoder.dumps(answer.as_data()) if json else str(answer))
    if not json:
        for ground in answer.others:
            console.line(f"  weaker: {ground.text} ({ground.source})")


@command(help={"document": "policy or image"}, positional=["document"])
def schema(c: Context, document: str) -> None:  # noqa: ARG001
    """Print the JSON Schema of a document, for editors."""
    from sandwright.image.schema import definition_schema  # noqa: PLC0415
    from sandwright.policy.schema import policy_schema  # noqa: PLC0415

    schemas = {"policy": policy_schema, "image": definition_schema}
    if document not in schemas:
        raise UsageError(f"no schema of '{document}'; there are {', '.join(schemas)}")
    console.line(encoder.dumps(schemas[document](), indent=2, sort_keys=True))


@command(
    help={"file": "a Seatbelt profile (.sb), a seccomp profile (.json) or a policy (.yaml)"},
    positional=["file"],
)
def lint(c: Context, file: str) -> None:  # noqa: ARG001
    """Say what is likely wrong in a profile or policy, whoever wrote it; fail on an error."""
    lines = list(_lint(file))
    for _, line in lines:
        console.line(line)
    if any(severity == "error" for severity, _ in lines):
        raise VerdictError(f"{file} has errors")
    if not lines:
        console.line(f"{file}: nothing found")


def _lint(file: str) -> Iterator[tuple[str, str]]:
    """Severity and line of each finding."""
    match Path(file).suffix:
        case ".sb":
            from sandwright.evaluate.sbpl.imports import FileImporter  # noqa: PLC0415
            from sandwright.evaluate.sbpl.lint import lint as lint_sbpl  # noqa: PLC0415

            found = lint_sbpl(read_file(file), file=file, importer=FileImporter(trusted=True))
            yield from ((finding.severity, str(finding)) for finding in found)
        case ".json":
            from sandwright.evaluate.seccomp.lint import lint_profile  # noqa: PLC0415

            faults = lint_profile(read_file(file), file)
            yield from ((fault.severity.value, fault.render(file)) for fault in faults)
        case ".yaml" | ".yml":
            _load(file, None)
        case _:
            raise UsageError(f"{file}: by its name neither a .sb, a .json nor a .yaml file")


def _load(policy: str, settings: Sequence[str] | None) -> Policy:
    """The policy as all layers say it: floor, user, the file named, and this run."""
    from sandwright.policy.load import layers_for, read_layer  # noqa: PLC0415
    from sandwright.policy.policy import Policy  # noqa: PLC0415

    path = Path(policy)
    layers = [
        layer
        for layer in layers_for(path.parent, os.environ, settings=list(settings or ()))
        if layer.kind != "project"
    ]
    return Policy.from_layers([*layers, read_layer(path, kind="project")])


def _resolved(policy: str, facts: str, settings: Sequence[str] | None) -> ResolvedPolicy:
    return _load(policy, settings).resolve(_facts(facts))


def _facts(file: str) -> HostFacts | None:
    if not file:
        return None
    from sandwright.policy.facts import HostFacts  # noqa: PLC0415

    try:
        return HostFacts.from_json(encoder.loads(read_file(file)))
    except ValueError as error:
        raise UsageError(f"{file} is not the facts of a host: {error}") from error


def _files(rendered: Rendered) -> list[Artifact]:
    from sandwright.render.artifact import json_artifact  # noqa: PLC0415

    digests = {artifact.name: artifact.digest for artifact in rendered.artifacts}
    document = {"method": rendered.method, "artifacts": digests}
    return [*rendered.artifacts, json_artifact(MANIFEST, document, "digests of the artifacts")]


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error


def _write(directory: Path, artifacts: Sequence[Artifact]) -> None:
    from sandwright.rootfs.store import write_atomically  # noqa: PLC0415

    for artifact in artifacts:
        target = directory / artifact.name
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(target, artifact.content)
        target.chmod(artifact.mode)


def _show_changes(directory: Path, artifacts: Sequence[Artifact]) -> None:
    for artifact in artifacts:
        name = str(directory / artifact.name)
        before, after = _content(directory / artifact.name) or b"", artifact.content
        if b"\0" in before + after:
            console.line(f"{name}: {len(before)} bytes before, {len(after)} after")
            continue
        old, new = (text.decode(errors="backslashreplace").splitlines() for text in (before, after))
        for line in difflib.unified_diff(old, new, name, name, lineterm=""):
            console.line(line)
