"""Commands about policies: rendering and explaining."""

from __future__ import annotations

import difflib
import json as encoder
import os
from collections.abc import Sequence
from pathlib import Path

from sandwright.checked import Checked
from sandwright.cli import console
from sandwright.cli.artifacts import Changes, changes, content, stray_entries
from sandwright.cli.policy_arguments import load_policy, read_facts, request_for
from sandwright.cli.trust import require_secrets, require_texts
from sandwright.errors import UsageError, VerdictError
from sandwright.evaluate.explain.compare import Comparison, Row
from sandwright.image.schema import definition_schema
from sandwright.init.files import keep_from_git
from sandwright.inputs import LiveHost
from sandwright.methods import compare, registry
from sandwright.methods.registry import declaration
from sandwright.methods.registry import render as render_method
from sandwright.policy.installation import refuse_changeable, refuse_replaceable
from sandwright.policy.policy_warnings import collect_warnings
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.policy.schema import policy_schema
from sandwright.visible import one_line

ALL = "all"
"""The word for every method, for `explain --method`."""


def render(
    *,
    policy: str = "sandbox.yaml",
    method: Sequence[str] | None = None,
    out: str = "",
    facts: str = "",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
    check: bool = False,
    diff: bool = False,
) -> Checked:
    """Render the artifacts of a policy, with a manifest of their digests."""
    out = out or str(Path(policy).parent / ".sandbox")
    if not check and not diff:
        _make_output_directory(Path(out))  # before we look: the sandbox must not write it
    request = request_for(policy, set)
    loaded = load_policy(request)
    resolved = loaded.resolve(read_facts(facts, loaded))
    if not facts:
        require_secrets(request, loaded, resolved.facts)
        refuse_changeable(resolved)
    stale: list[str] = []
    checked = Checked()
    for name in _rendered_methods(method, resolved, Path(out), check=check):
        rendered = render_method(resolved, name)
        if not (facts or check or diff):  # with others' facts it is for reviewers
            refuse_replaceable(resolved, declaration(name), str(Path(out) / name))
        for finding in rendered.findings:
            if finding.kind != "left-out" or not (check or diff):
                console.line(str(finding))
        _warn(resolved, name, here=not facts)
        found = changes(rendered, Path(out) / name)
        stale += found.names()
        checked.add(len(rendered.artifacts))
        if diff:
            _show_changes(found)
        elif not check:
            found.apply()
            _print_changes(found, len(rendered.artifacts))
    if check:
        stale += stray_entries(Path(out), {*resolved.methods, *(method or ())})
    if stale and check:
        raise VerdictError(f"not what the policy renders to: {', '.join(stale)}")
    return checked


def _rendered_methods(
    named: Sequence[str] | None, policy: ResolvedPolicy, out: Path, *, check: bool
) -> list[str]:
    """The named methods, else the policy's; a check also compares the policy's others that were rendered.

    A launcher that nothing compares would pass with the named one.
    """
    others = [name for name in policy.methods if check and os.path.lexists(out / name)]
    return list(dict.fromkeys([*(named or policy.methods), *others]))


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
    """Show how a policy and each method's artifacts decide about one access, and by which rule."""
    if not question or not subject:
        raise UsageError(
            "usage: sandwright explain read|write|exec|connect|listen|env|syscall SUBJECT [ARGUMENT ...]"
        )
    request = request_for(policy, set, preset)
    loaded = load_policy(request)
    if question in ("read", "write", "exec") and not facts and not subject.startswith(("/", "~", "$")):
        subject = str(Path(subject).absolute())
    resolved = loaded.resolve_for(question, subject, read_facts(facts, loaded))
    if not facts:
        require_secrets(request, loaded, resolved.facts)
    answer = compare.explain(
        resolved,
        question,
        subject,
        arguments=[_parse_argument(each) for each in argument] if argument else None,
        methods=None if ALL in (method or ()) else method or resolved.methods or None,
        architectures=arch or (),
    )
    if json:
        console.lines(encoder.dumps(answer.as_data()))
    else:
        _print_comparison(answer)
    if not answer.agree:
        names = ", ".join(dict.fromkeys(row.method for row in answer.rows if row.status == "disagrees"))
        raise VerdictError(f"the artifacts decide otherwise than the policy: {names}")


def facts(
    *,
    policy: str = "sandbox.yaml",
    set: Sequence[str] | None = None,  # noqa: A002 - the option's name
) -> None:
    """Print the facts about this host that a policy needs, as JSON, to render for it elsewhere with --facts.

    Raise UsageError if an unapproved policy would put secrets or files from outside the project into it.
    """
    request = request_for(policy, set)
    loaded = load_policy(request)
    found = loaded.facts()
    require_secrets(request, loaded, found)
    require_texts(request, loaded, found)
    console.write(found.to_json())


def schema(*, document: str) -> None:
    """Print the JSON Schema of a document, for editors."""
    schema = policy_schema() if document == "policy" else definition_schema()
    console.lines(encoder.dumps(schema, indent=2, sort_keys=True))


def _make_output_directory(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        if out.name == ".sandbox":
            keep_from_git(out)
    except OSError as error:
        raise UsageError(f"cannot create {out}: {error.strerror}") from error


def _warn(policy: ResolvedPolicy, method: str, *, here: bool) -> None:
    """Warn of settings with less effect than they seem to have, and of Seatbelt for Linux."""
    properties, mounts = registry.properties(method), registry.declaration(method).mounts
    image_root = properties.root == "image"
    for remark in collect_warnings(policy, LiveHost(), mounts=mounts, image_root=image_root) if here else ():
        console.warn(remark)
    if properties.foreign_paths and properties.system != policy.facts.os:
        console.warn(properties.foreign_paths)


def _print_changes(found: Changes, count: int) -> None:
    console.line(f"{found.directory}: {count} artifacts, {len(found.written)} files written")
    for name in found.removed:
        console.line(one_line(f"{found.directory / name}: removed, because the policy no longer renders it"))
    for name in found.strange:
        console.warn(
            f"{found.directory / name} was not written by this program, or was changed since, so it stays"
        )


def _show_changes(found: Changes) -> None:
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


def _parse_argument(text: str) -> int:
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


def _print_comparison(found: Comparison) -> None:
    others = (f"  weaker: {ground.text} ({ground.source})" for ground in found.answer.others)
    void = [f"  {found.answer.void}"] if found.answer.void else []
    for line in (str(found.answer), *void, *others):
        console.line(one_line(line))
    rows = [_cells(row) for row in found.rows]
    console.table(("method", "decision", "", "decided by", "policy"), rows)


def _cells(row: Row) -> tuple[str, ...]:
    method = f"{row.method} {row.arch}".strip()
    decided = str(row.position) if row.position else row.because
    if row.reason and row.status in _EXPLAINED:
        decided = f"{decided}; {row.reason}" if row.position or row.because != row.reason else decided
    status = "DISAGREES" if row.status == "disagrees" else row.status
    return method, row.decision or "–", status, decided, str(row.source) if row.source else ""


_EXPLAINED = ("stricter", "looser", "refused", "disagrees")
