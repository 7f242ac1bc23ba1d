"""Probes of the paths that the policy itself names: each rule is attempted at its path.

No file of the user is changed, even in a sandbox that enforces nothing: files are opened for writing without
writing a byte, modes are set to their current value, and new files have names of ours.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandwright.policy.paths import ancestors, is_inside
from sandwright.policy.rules import PathRule
from sandwright.policy.uses import file_in_the_way
from sandwright.render.placeholders import first_missing
from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.catalogue.files import (
    creation_attempts,
    creation_controls,
    find_created,
    inode_identity,
    reads_plain,
    writes_plain,
)
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.subject import ProofSubject, step


def probes(subject: ProofSubject) -> Iterator[Probe]:
    """One probe for each rule about an existing path; missing denied paths share one."""
    absent = []
    strongest = {
        rule.path: rule for rule in sorted(subject.policy.filesystem.rules, key=lambda rule: rule.strength)
    }
    for rule in strongest.values():
        if rule.private or rule.origin == "tmp" or _is_planted(rule, subject):
            continue
        if subject.policy.facts.kind(rule.path) is None:
            absent += [rule] if rule.kind == "deny" or rule.through else []
            continue
        yield from _for_rule(rule, subject)
    blocked = [rule for rule in absent if file_in_the_way(rule.path, subject.policy)]
    covered, nowhere = _by_placeholder([rule for rule in absent if rule not in blocked], subject)
    yield from _blocked(blocked, subject)
    for number, (parent, paths) in enumerate(sorted(covered.items())[:_PLACES]):
        yield _covered_probe(Path(parent), paths[:_NAMES], subject, "" if not number else f": {parent}")
    if nowhere:
        yield _absent_probe(nowhere, subject)


_TRIED = 3
"""The number of a denied directory's entries that are attempted."""

_PLACES, _NAMES = 4, 4
"""The number of directories, and of names in each, that are attempted; all are treated alike."""


def _by_placeholder(
    rules: list[PathRule], subject: ProofSubject
) -> tuple[dict[str, list[Path]], list[PathRule]]:
    """Divide rules for missing paths into names that a program could create in the project, and the rest.

    While a sandbox runs, such a name has a placeholder (render/placeholders.py).
    """
    policy = subject.policy
    covered: dict[str, list[Path]] = {}
    nowhere: list[PathRule] = []
    project = policy.canonical(policy.facts.project)
    for rule in rules:
        first = first_missing(policy.facts, rule.path)
        parent = first.rpartition("/")[0] or "/"
        if is_inside(rule.path, project) and policy.filesystem.tree.changes_host(parent):
            names = covered.setdefault(parent, [])
            names += [Path(first)] if Path(first) not in names else []
        elif rule.kind == "deny":
            nowhere.append(rule)
    return covered, nowhere


def _blocked(rules: Sequence[PathRule], subject: ProofSubject) -> Iterator[Probe]:
    """Files in the place of a directory that a restricted name needs. Probes try to move the fixture's."""
    support = subject.declaration.of("filesystem.readonly")
    for path in dict.fromkeys(file_in_the_way(rule.path, subject.policy) for rule in rules):
        if not os.access(path, os.W_OK) or not subject.policy.filesystem.tree.changes_host(path):
            continue
        skip = f"{subject.method} cannot: {support.reason}" if support.level == "cannot" else ""
        about = "a file where a restricted name needs a directory cannot be written"
        steps = () if skip else (step("readonly.write", "write", path),)
        control = () if skip else (writes_plain(subject.fixture),)
        yield Probe(f"files/in the way: {path}", Family.FILES, about, steps, control, skip=skip)


def _covered_probe(parent: Path, paths: list[Path], subject: ProofSubject, suffix: str) -> Probe:
    mine = parent / f".sandwright-{subject.word}-absent"
    return Probe(
        f"files/absent{suffix}",
        Family.FILES,
        "a restricted name that doesn't exist in the project cannot be created, whatever it would be",
        tuple(each for path in paths for each in creation_attempts(path, mine)),
        creation_controls(mine),
        check=lambda: find_created(paths, mine),
    )


def _is_planted(rule: PathRule, subject: ProofSubject) -> bool:
    return Path(rule.path.removeprefix("/private")).is_relative_to(subject.fixture.root) or Path(
        rule.path
    ).is_relative_to(subject.fixture.root)


def _for_rule(rule: PathRule, subject: ProofSubject) -> Iterator[Probe]:
    there = _visible(rule.path, subject)
    if reason := _unenforceable_reason(rule, subject):
        about = f"{rule} holds inside what may be written ({rule.source})"
        skip = f"{subject.method} cannot: {reason}"
        yield Probe(f"files/{rule.kind}: {rule.path}", Family.FILES, about, (), skip=skip)
    elif rule.kind == "deny":
        steps = tuple(_hidden_steps(rule, subject, masked=there))
        yield _probe(rule, "is not seen", steps, reads_plain(subject.fixture), _unique(rule.path, subject))
    elif not there:
        return  # a preset's, for methods that show all the host
    elif rule.kind == "write":
        yield _writable_probe(rule, subject)
    else:
        steps = (*_readable(rule), *_unwritable(rule, subject))
        control, never = writes_plain(subject.fixture), _unique(rule.path, subject)
        yield _probe(rule, "can be read and not written", steps, control, never)


def _unenforceable_reason(rule: PathRule, subject: ProofSubject) -> str:
    """The reason why the method can't enforce a rule inside a writable path; empty if it can or need not."""
    feature = {"deny": "filesystem.deny-inside", "readonly": "filesystem.readonly"}.get(rule.kind, "")
    support = subject.declaration.of(feature)
    parent = rule.path.rpartition("/")[0] or "/"
    inside = bool(feature) and subject.policy.filesystem.tree.changes_host(parent)
    return support.reason if inside and support.level == "cannot" else ""


def _visible(path: str, subject: ProofSubject) -> bool:
    """Whether the host's files at or above a path are visible inside at all, apart from the rules."""
    if not subject.image_root:
        return True
    listed = {
        rule.path
        for rule in subject.policy.filesystem.rules
        if rule.kind in ("read", "write", "readonly")
        and rule.path != "/"
        and not _only_for_host(rule, subject)
    }
    return bool(listed & {path, *ancestors(path)})


def _only_for_host(rule: PathRule, subject: ProofSubject) -> bool:
    """Whether a rule is a preset's grant in a policy that grants the whole host: images need not show it."""
    preset = rule.kind == "read" and rule.source.layer.startswith("preset ")
    return preset and subject.policy.filesystem.reads_all


def _probe(
    rule: PathRule,
    what: str,
    steps: Iterator[ProbeStep] | tuple[ProbeStep, ...],
    control: ProbeStep,
    *never: Path,
) -> Probe:
    name = f"files/{rule.kind}: {rule.path}"
    about = f"{rule} {what} ({rule.source})"
    return Probe(name, Family.FILES, about, tuple(steps), (control,), never=never)


def _unique(directory: str, subject: ProofSubject) -> Path:
    """A path in a directory without a rule."""
    return Path(directory) / f".sandwright-{subject.word}"


def _hidden_steps(rule: PathRule, subject: ProofSubject, *, masked: bool) -> Iterator[ProbeStep]:
    path = Path(rule.path)
    opened = [each.path for each in subject.policy.filesystem.rules if each.kind != "deny"]
    inside = list(itertools.islice(_denied_entries(path, opened), _TRIED))
    if not masked:
        yield from _of_image(rule, inside, subject)
    elif not subject.policy.filesystem.tree.allows("read", str(path.parent)) or _is_private(
        path.parent, subject
    ):
        yield step("hidden.attributes", "stat", path)  # its parent is hidden already
    elif subject.policy.facts.kind(rule.path) == "directory":
        yield from (step("hidden.attributes", "stat", each) for each in inside)
        names = tuple(os.fsencode(each.name) for each in inside if each.parent == path)
        if names:
            yield ProbeStep(attempt("list", path), "hidden.list", lacks=names)
        elif not any(is_inside(each, rule.path) for each in opened):
            yield ProbeStep(attempt("list", path), "hidden.list", value=b"")
        yield step("hidden.create", "create", _unique(rule.path, subject))
    else:
        yield step("hidden.file", "content", path)
        yield step("hidden.file.write", "write", path)


def _of_image(rule: PathRule, inside: Sequence[Path], subject: ProofSubject) -> Iterator[ProbeStep]:
    """The denied paths under an image's root: those in the image, and those only on the host, by a preset."""
    path = Path(rule.path)
    if not subject.policy.denies_image(rule.path):
        claim = "image.own" if _in_image(rule.path) else "foreign"
        for each in (path, *inside):
            yield ProbeStep(attempt("stat", each), claim, lacks=(inode_identity(each),))
    elif subject.policy.facts.kind(rule.path) == "directory":
        yield from (step("image.entry", "stat", each) for each in inside)
        yield step("image.create", "create", _unique(rule.path, subject))
    else:
        yield step("image.file", "content", path)


def _is_private(path: Path, subject: ProofSubject) -> bool:
    """Whether a path is in a private directory of the sandbox, such as its /tmp."""
    return any(rule.private for rule in subject.policy.filesystem.tree.deciding(str(path))[:1])


def _denied_entries(directory: Path, opened: Sequence[str]) -> Iterator[Path]:
    """The entries of a denied directory, or parents of reopened paths in it, which exist inside.

    An empty directory proves nothing, but no more can be attempted.
    """
    try:
        names = sorted(os.listdir(directory))  # noqa: PTH208 - names
    except OSError:
        return
    for path in (directory / name for name in names):
        below = [each for each in opened if is_inside(each, str(path))]
        if not below:
            yield path
        elif str(path) not in below:
            yield from _denied_entries(path, below)


def _readable(rule: PathRule) -> Iterator[ProbeStep]:
    """Paths that this user may read without a sandbox; for others only the existence is probed."""
    path = Path(rule.path)
    if not os.access(path, os.R_OK):
        yield step("works", "stat", path)
    elif path.is_dir():
        yield step("listed", "list", path)
    else:
        yield step("works", "length" if path.is_file() else "stat", path)


def _unwritable(rule: PathRule, subject: ProofSubject) -> Iterator[ProbeStep]:
    """Writes that succeed for this user without a sandbox; others would prove nothing about the sandbox."""
    path = Path(rule.path)
    with contextlib.suppress(OSError):  # a simulated Mac's path need not be there
        status = path.lstat()
        if os.geteuid() in (0, status.st_uid):
            yield step("readonly.attributes", "chmod", path, stat.S_IMODE(status.st_mode))
    kind = subject.policy.facts.kind(rule.path)
    if kind == "directory":
        yield step("readonly.write", "create", _unique(rule.path, subject))
    elif kind == "file" and os.access(path, os.W_OK):
        yield step("readonly.write", "write", path)


def _writable_probe(rule: PathRule, subject: ProofSubject) -> Probe:
    path = Path(rule.path)
    if not path.is_dir():
        return _probe(rule, "can be written", (step("works", "write", path),), reads_plain(subject.fixture))
    made = _unique(rule.path, subject)
    steps = (step("works", "create", made, subject.word), step("works", "unlink", made))
    return _probe(rule, "can be written", steps, reads_plain(subject.fixture), made)


def _absent_probe(rules: list[PathRule], subject: ProofSubject) -> Probe:
    """A probe that nothing can be created at denied paths that don't exist on this machine."""
    tree = subject.policy.filesystem.tree
    steps: list[ProbeStep] = []
    places: dict[str, None] = {}
    for rule in rules:
        if subject.image_root and not _visible(rule.path, subject):
            if subject.policy.denies_image(rule.path):
                steps += _of_image(rule, (), subject)
                continue
            if _in_image(rule.path):
                continue
        steps.append(step("absent", "stat", rule.path))
        above = _existing_parent(rule.path, subject)
        if (
            tree.allows("read", above)
            and not tree.changes_host(above)
            and not _is_private(Path(above), subject)
        ):
            places[above] = None
    made = {parent_path: _unique(parent_path, subject) for parent_path in places}
    steps += [step("absent.create", "create", path) for path in made.values()]
    return Probe(
        "files/deny: what does not exist",
        Family.FILES,
        f"{len(rules)} denied paths that don't exist here aren't there inside, and cannot be created",
        tuple(steps),
        (reads_plain(subject.fixture), writes_plain(subject.fixture)),
        never=tuple(made.values()),
    )


def _in_image(path: str) -> bool:
    """Whether an image can have a file there."""
    return path.split("/")[1] in ("bin", "dev", "etc", "lib", "proc", "run", "sbin", "sys", "usr", "var")


def _existing_parent(path: str, subject: ProofSubject) -> str:
    """The nearest existing directory above a path."""
    facts = subject.policy.facts
    return next(each for each in ancestors(path) if each == "/" or facts.kind(each) is not None)
