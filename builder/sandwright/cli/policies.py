"""Commands about policies: rendering, explaining and linting."""

from __future__ import annotations

import json as encoder
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sandwright.cli import console
from sandwright.cli.arguments import load_policy, read_file, request_for
from sandwright.cli.trust import require_secrets
from sandwright.errors import RenderError, SandwrightError, UsageError, VerdictError
from sandwright.places import above
from sandwright.visible import one_line

if TYPE_CHECKING:
    from sandwright.api import Policy
    from sandwright.cli.artifacts import Changes
    from sandwright.evaluate.explain.compare import Comparison, Row
    from sandwright.policy.facts import HostFacts
    from sandwright.policy.resolved import ResolvedPolicy


def render(
    *,
    policy: str = "sandbox.yaml",
    method: Sequence[str] | None = None,
    out: str = "",
    facts: str = "",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    check: bool = False,
    diff: bool = False,
) -> None:
    """Render the artifacts of a policy, with a manifest of their digests."""
    from sandwright.cli.artifacts import changes  # noqa: PLC0415
    from sandwright.methods.registry import render as render_method  # noqa: PLC0415
    from sandwright.policy.installation import refuse_changeable  # noqa: PLC0415

    out = out or str(Path(policy).parent / ".sandbox")
    if not check and not diff:
        _make(Path(out))  # before we look: the sandbox must not write it
    resolved = _resolved(policy, facts, set)
    if not facts:
        require_secrets(request_for(policy, set), resolved.facts)
        refuse_changeable(resolved)
    stale: list[str] = []
    for name in method or resolved.methods:
        rendered = render_method(resolved, name)
        for finding in rendered.findings:
            if finding.kind != "left-out" or not (check or diff):
                console.line(str(finding))
        _warn(resolved, name, here=not facts)
        found = changes(rendered, Path(out) / name)
        stale += found.names()
        if diff:
            _show_changes(found)
        elif not check:
            found.apply()
            _say(found, len(rendered.artifacts))
    if check and stale:
        raise VerdictError(f"not what the policy renders to: {', '.join(stale)}")


def explain(
    *,
    question: str = "",
    subject: str = "",
    argument: Sequence[str] | None = None,
    policy: str = "sandbox.yaml",
    preset: Sequence[str] | None = None,
    method: Sequence[str] | None = None,
    arch: Sequence[str] | None = None,
    facts: str = "",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    json: bool = False,
) -> None:
    """Show what a policy answers to a question, and what each method's artifacts do, by which rule."""
    from sandwright.methods import registry  # noqa: PLC0415

    if not question or not subject:
        raise UsageError(
            "usage: sandwright explain read|write|exec|connect|listen|env|syscall SUBJECT [ARGUMENT ...]"
        )
    request = request_for(policy, set, preset)
    loaded = load_policy(request)
    if question in ("read", "write", "exec") and not facts and not subject.startswith(("/", "~", "$")):
        subject = str(Path(subject).absolute())
    resolved = loaded.resolve_for(question, subject, _facts(facts, loaded))
    if not facts:
        require_secrets(request, resolved.facts)
    answer = registry.explain(
        resolved,
        question,
        subject,
        arguments=[_number(each) for each in argument] if argument else None,
        methods=method or None,
        architectures=arch or (),
    )
    if json:
        console.lines(encoder.dumps(answer.as_data()))
    else:
        _show(answer)
    if not answer.agree:
        names = ", ".join(dict.fromkeys(row.method for row in answer.rows if row.status == "disagrees"))
        raise VerdictError(f"artifacts do not do what the policy says: {names}")


def facts(
    *,
    policy: str = "sandbox.yaml",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
) -> None:
    """Print what a policy needs to know of this host as JSON, to render for it elsewhere with --facts.

    Raise UsageError where secrets would be in it that the user hasn't accepted.
    """
    request = request_for(policy, set)
    found = load_policy(request).facts()
    require_secrets(request, found)
    console.write(found.to_json())


def schema(*, document: str) -> None:
    """Print the JSON Schema of a document, for editors."""
    from sandwright.image.schema import definition_schema  # noqa: PLC0415
    from sandwright.policy.schema import policy_schema  # noqa: PLC0415

    schema = policy_schema() if document == "policy" else definition_schema()
    console.lines(encoder.dumps(schema, indent=2, sort_keys=True))


def lint(*, file: str = "", facts: str = "") -> None:
    """Show what is likely wrong in a profile, or in the project's policy. Raise VerdictError for an error."""
    file = file or above("sandbox.yaml")
    lines = list(_lint(file, facts))
    for _, line in lines:
        console.line(line)
    if any(severity == "error" for severity, _ in lines):
        raise VerdictError(f"{one_line(file)} has errors")
    if not lines:
        console.line(f"{file}: nothing found")


def _lint(file: str, facts: str) -> Iterator[tuple[str, str]]:
    """Severity and line of each finding."""
    match Path(file).suffix:
        case ".sb":
            from sandwright.evaluate.sbpl.imports import FileImporter  # noqa: PLC0415
            from sandwright.evaluate.sbpl.lint import lint as lint_sbpl  # noqa: PLC0415

            found = lint_sbpl(read_file(file), file=file, importer=FileImporter(trusted=True))
            yield from ((finding.severity, str(finding)) for finding in found)
        case ".json":
            from sandwright.seccomp.lint import lint_profile  # noqa: PLC0415

            faults = lint_profile(read_file(file), file)
            yield from ((fault.severity.value, fault.render(file)) for fault in faults)
        case ".yaml" | ".yml":
            yield from _lint_policy(file, facts)
        case _:
            raise UsageError(f"{file}: by its name neither a .sb, a .json nor a .yaml file")


def _lint_policy(file: str, facts: str) -> Iterator[tuple[str, str]]:
    """What its methods can't enforce, settings with less effect than they seem to have, denied files in Git.

    Nothing where the policy can't be resolved on this host, which `render` and `run` say.
    """
    from sandwright.adopt.tracked import tracked  # noqa: PLC0415
    from sandwright.inputs import InputTracker  # noqa: PLC0415
    from sandwright.methods import registry  # noqa: PLC0415
    from sandwright.policy.collect import collect, public_environment  # noqa: PLC0415
    from sandwright.policy.paths import is_inside  # noqa: PLC0415
    from sandwright.policy.remarks import remarks  # noqa: PLC0415

    policy = load_policy(request_for(file))
    if facts:
        yield from _unenforced(policy.resolve(_facts(facts, policy)))
        return
    try:
        resolved = policy.resolve(collect(policy, environ=public_environment(os.environ)))
        mounts = all(registry.declaration(name).mounts for name in resolved.methods[:1])
        yield from (("warning", each) for each in remarks(resolved, InputTracker(), mounts=mounts))
    except SandwrightError:
        return  # `render` and `run` say why
    yield from _unenforced(resolved)
    project = resolved.canonical(resolved.facts.project)
    names = [f"{project}/{name}" for name in tracked(Path(project))]
    for rule in resolved.filesystem.rules:
        denied = rule.kind == "deny" and rule.origin == "listed" and is_inside(rule.path, project)
        if denied and any(is_inside(name, rule.path) for name in names):
            place = f"{rule.source.file}:{rule.source.line}:{rule.source.column}: {rule.source.field}"
            yield (
                "warning",
                f"{place}: Git tracks {rule.written}: everybody who has the repository has it, and hidden it "
                "may break `git commit`, or tools that read it",
            )


def _unenforced(policy: ResolvedPolicy) -> Iterator[tuple[str, str]]:
    """What of a policy its methods can't enforce, and the way out, as `render` and `run` say it."""
    from sandwright.methods import registry  # noqa: PLC0415
    from sandwright.policy.uses import check_expressible  # noqa: PLC0415

    for method in policy.methods:
        try:
            check_expressible(policy, registry.declaration(method))
        except RenderError as error:
            yield from (("error", line) for line in str(error).splitlines())


def _resolved(policy: str, facts: str, settings: Sequence[str] | None) -> ResolvedPolicy:
    loaded = load_policy(request_for(policy, settings))
    return loaded.resolve(_facts(facts, loaded))


def _facts(file: str, policy: Policy) -> HostFacts | None:
    """The facts in a file, None for no file. Raise DocumentError when they are not about this policy."""
    if not file:
        return None
    from sandwright.policy.facts import HostFacts  # noqa: PLC0415

    facts = HostFacts.from_json(read_file(file), file=file)
    policy.check_facts(facts)
    return facts


def _make(out: Path) -> None:
    from sandwright.adopt.files import keep_from_git  # noqa: PLC0415

    try:
        out.mkdir(parents=True, exist_ok=True)
        if out.name == ".sandbox":
            keep_from_git(out)
    except OSError as error:
        raise UsageError(f"{out} can't be made: {error.strerror}") from error


def _warn(policy: ResolvedPolicy, method: str, *, here: bool) -> None:
    """Warn of settings with less effect than they seem to have, and of Seatbelt for Linux."""
    from sandwright.inputs import InputTracker  # noqa: PLC0415
    from sandwright.methods import registry  # noqa: PLC0415
    from sandwright.policy.remarks import remarks  # noqa: PLC0415

    for remark in remarks(policy, InputTracker(), mounts=registry.declaration(method).mounts) if here else ():
        console.warn(remark)
    properties = registry.properties(method)
    if properties.foreign_paths and properties.system != policy.facts.os:
        console.warn(properties.foreign_paths)


def _say(found: Changes, count: int) -> None:
    console.line(f"{found.directory}: {count} artifacts, {len(found.written)} files written")
    for name in found.removed:
        console.line(one_line(f"{found.directory / name}: removed, as the policy no longer renders to it"))
    for name in found.strange:
        console.warn(
            f"{found.directory / name} was not written by this program, or changed since: left alone"
        )


def _show_changes(found: Changes) -> None:
    import difflib  # noqa: PLC0415 - only for --diff

    from sandwright.cli.artifacts import content  # noqa: PLC0415

    after = {each.name: each.content for each in found.written} | dict.fromkeys(found.removed, b"")
    for name, new in after.items():
        path = str(found.directory / name)
        old = content(found.directory / name)
        if not all(_is_words(each) or b"\0" not in each for each in (old, new)):
            console.line(f"{path}: {len(old)} bytes before, {len(new)} after")
            continue
        before, now = (
            each.replace(b"\0", b"\n").decode(errors="backslashreplace").splitlines() for each in (old, new)
        )
        target = path if new or name not in found.removed else os.devnull
        for line in difflib.unified_diff(before, now, path, target, lineterm=""):
            console.line(line)


def _is_words(content: bytes) -> bool:
    """Whether these are arguments or fields that each end with NUL, and are shown as lines."""
    return (
        content.endswith(b"\0")
        and b"\0\0\0\0" not in content
        and content.translate(None, _CONTROLS) == content
    )


_CONTROLS = bytes(each for each in range(1, 32) if each not in b"\t\n\r\x1b")


def _number(text: str) -> int:
    """The number of an argument, as the kernel gets it."""
    try:
        value = int(text, 0)
    except ValueError:
        raise UsageError(
            f"{text} is not a number: write decimal digits, or 0x and hexadecimal ones"
        ) from None
    if not -(1 << 63) <= value < 1 << 64:
        raise UsageError(f"{text} does not fit into 64 bits")
    return value & (1 << 64) - 1


def _show(found: Comparison) -> None:
    others = (f"  weaker: {ground.text} ({ground.source})" for ground in found.answer.others)
    void = [f"  {found.answer.void}"] if found.answer.void else []
    for line in (str(found.answer), *void, *others):
        console.line(one_line(line))
    rows = [_cells(row) for row in found.rows]
    console.table(("method", "decision", "", "decided by", "policy"), rows)


def _cells(row: Row) -> tuple[str, ...]:
    method = f"{row.method} {row.arch}".strip()
    decided = str(row.place) if row.place else row.because
    if row.reason and row.status in _EXPLAINED:
        decided = f"{decided}\n{row.reason}" if row.place or row.because != row.reason else decided
    status = "DISAGREES" if row.status == "disagrees" else row.status
    return method, row.decision or "–", status, decided, str(row.source) if row.source else ""


_EXPLAINED = ("stricter", "looser", "refused", "disagrees")
