"""Prepares one start of a foreign sandbox: planted files, listeners, and the command with their paths."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sandwright.engines.archive import empty_image
from sandwright.engines.client import EngineClient
from sandwright.environment import INSIDE
from sandwright.errors import UsageError
from sandwright.policy.collect import collect_facts
from sandwright.policy.load import layer, run_layer
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.verify.fixture import Fixture, plant_fixture
from sandwright.verify.foreign.claims import Promises, expand_template, policy_text
from sandwright.verify.foreign.sandbox import MARK, SubjectSandbox
from sandwright.verify.foreign.subject import ForeignSubject
from sandwright.verify.host_process import host_process
from sandwright.verify.listeners import canary_listeners
from sandwright.verify.sandbox import probe_environment
from sandwright.verify.subject import canaries

_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")
"""Paths that every tool accepts."""


@contextlib.contextmanager
def stage(promises: Promises, command: Sequence[object]) -> Iterator[tuple[ForeignSubject, SubjectSandbox]]:
    """Plant new files and listeners, and prepare the command for them."""
    with (
        _plant_fixture(promises) as fixture,
        canary_listeners(fixture.read, fixture.write, fixture.word) as listeners,
        host_process() as outside,
    ):
        policy = resolve_promised(promises, fixture)
        subject = ForeignSubject(
            *(promises.name, policy, fixture, listeners, canaries(policy)),
            promises=promises,
            host_process=outside,
        )
        with _subject_sandbox(subject, command) as sandbox:
            try:
                yield subject, sandbox
            finally:
                sandbox.end_all()


@contextlib.contextmanager
def _plant_fixture(promises: Promises) -> Iterator[Fixture]:
    """The planted files, at the places in the promises or in a directory of this run."""
    root = Path(promises.at).expanduser() if promises.at else None
    if root and (not root.is_absolute() or os.path.lexists(root) or not root.parent.is_dir()):
        raise UsageError(f"{promises.name}: at: {root} must be an absolute path at which nothing is yet")
    with plant_fixture(root.parent if root else None) as fixture:
        if root is None:
            yield fixture
            return
        fixture.root.rename(root)
        try:
            yield replace(fixture, root=root.resolve())
        finally:
            root.rename(fixture.root)


def resolve_promised(promises: Promises, fixture: Fixture) -> ResolvedPolicy:
    """The sandbox's policy, with the planted files. Only sandwright's sandboxes have its variable."""
    base_layer = layer(policy_text(promises), file=f"{promises.name}: policy")
    added = run_layer(fixture.settings())
    unmarked = layer(f"schema: 1\nenvironment: {{set: {{{INSIDE.name}: null}}}}\n")
    merged = MergedPolicy.from_layers([unmarked, base_layer, *([added] if added else [])])
    return merged.resolve(collect_facts(merged, project=fixture.write))


@contextlib.contextmanager
def _subject_sandbox(subject: ForeignSubject, command: Sequence[object]) -> Iterator[SubjectSandbox]:
    """The command, with this run's paths in its words and its settings."""
    fixture, promises = subject.fixture, subject.promises
    with contextlib.ExitStack() as stack:
        places = {
            "root": str(fixture.root),
            "bin": str(fixture.probe),
            "read": str(fixture.read),
            "write": str(fixture.write),
            "files": str(fixture.artifacts),
        }
        if promises.image:
            image = empty_image(
                EngineClient(promises.image), subject.policy.facts.platform, purpose="subject"
            )
            places["image"] = stack.enter_context(image)
        groups = _path_groups(subject)
        for name, content in promises.files.items():
            value = expand_template(content, places, groups)
            text = value if isinstance(value, str) else json.dumps(value, indent=2)
            (fixture.artifacts / name).write_text(text, encoding="utf-8")
        environment = {
            **probe_environment(fixture.state),
            **subject.canaries.environment,
            MARK: fixture.word,
        }
        yield SubjectSandbox(
            promises.name,
            Path("/nonexistent"),
            fixture.program,
            environment,
            cwd=Path(expand_template(promises.cwd, places, groups)) if promises.cwd else None,
            prefix=tuple(map(str, expand_template(list(command), places, groups))),
            root=fixture.root,
            word=fixture.word,
        )


def _path_groups(subject: ForeignSubject) -> Mapping[str, Sequence[str]]:
    """The paths of each kind: those that the policy lists and that are there, parents first."""
    rules = [each for each in subject.policy.filesystem.rules if each.origin == "listed"]
    facts = subject.policy.facts
    denied = [each.path for each in rules if each.kind == "deny" and facts.kind(each.path)]
    return {
        "denied": denied,
        "denied-plain": [each for each in denied if _PLAIN.fullmatch(each)],
        "denied-directories": [each for each in denied if facts.kind(each) == "directory"],
        "denied-files": [each for each in denied if facts.kind(each) != "directory"],
        "readonly": [each.path for each in rules if each.kind == "readonly" and facts.kind(each.path)],
        "readable": [str(subject.fixture.probe), str(subject.fixture.read)],
    }
