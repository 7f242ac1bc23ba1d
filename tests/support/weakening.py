"""Removes one restriction from rendered artifacts, so that a test can see which probes fail."""

from __future__ import annotations

import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from sandwright import process
from sandwright.launcher import LAUNCH, LAUNCH_INIT, LAUNCH_VM
from sandwright.launcher.plan import LaunchPlan, parse_plan, plan_bytes
from sandwright.methods.shared.runtime_spec.launch import config_holes
from sandwright.prebuilt import PrebuiltProgram
from sandwright.render.artifact import Artifact
from sandwright.render.filters import engine_profile
from sandwright.seccomp import SeccompProfile, compile_profile
from sandwright.seccomp.action import ALLOW
from sandwright.seccomp.adapt import own_unix
from sandwright.seccomp.model import SeccompRule
from sandwright.verify.subject import ProofSubject
from support.locks import FOLDER
from support.thorough import THOROUGH

Artifacts = tuple[Artifact, ...]

BUILD_TIMEOUT = 300
"""Seconds."""

ALLOW_ALL = bytes.fromhex("06000000 0000ff7f")
"""A filter that returns SECCOMP_RET_ALLOW, whatever the call."""


def replaced(artifacts: Artifacts, name: str, change: Callable[[bytes], bytes]) -> Artifacts:
    """The artifacts with other content of one, and its new checksum in the launcher's plan."""
    old = next(each for each in artifacts if each.name == name)
    new = replace(old, content=change(old.content))
    assert new.content != old.content, f"{name} was not changed"
    before, after = (each.digest.removeprefix("sha256:").encode() for each in (old, new))
    return tuple(
        new if each is old else replace(each, content=each.content.replace(before, after))
        for each in artifacts
    )


def without_words(*words: str) -> Callable[[ProofSubject, Artifacts], Artifacts]:
    """Remove a sequence of bwrap's arguments; `{read}`, `{write}`, `{project}` are host directories."""
    return instead_of(words, ())


def instead_of(words: Sequence[str], others: Sequence[str]) -> Callable[[ProofSubject, Artifacts], Artifacts]:
    """Replace some of bwrap's arguments by others, at each occurrence."""

    def weaken(subject: ProofSubject, artifacts: Artifacts) -> Artifacts:
        def joined(parts: Sequence[str]) -> bytes:
            places = {
                "read": subject.fixture.read,
                "write": subject.fixture.write,
                "project": subject.policy.facts.project,
            }
            texts = [each.format(**places) for each in parts]
            return b"".join(text.encode() + b"\0" for text in texts)

        return replaced(
            artifacts,
            "args",
            lambda content: (b"\0" + content).replace(b"\0" + joined(words), b"\0" + joined(others))[1:],
        )

    return weaken


def several(
    *changes: Callable[[ProofSubject, Artifacts], Artifacts],
) -> Callable[[ProofSubject, Artifacts], Artifacts]:
    """One change after the other."""

    def weaken(subject: ProofSubject, artifacts: Artifacts) -> Artifacts:
        for change in changes:
            artifacts = change(subject, artifacts)
        return artifacts

    return weaken


def together(
    changes: Mapping[str, tuple[object, str]],
    alone: AbstractSet[str] = frozenset(),
    *,
    thorough: bool = THOROUGH,
) -> list[list[str]]:
    """The names of changes in groups with disjoint probes: each probe of a group belongs to one change.

    A change has its probes as words. In a thorough run each change is alone.
    """
    groups: list[list[str]] = []
    for name in changes:
        fits = (
            each
            for each in groups
            if not (alone & {*each, name} or probes(changes, each) & probes(changes, [name]))
        )
        group = None if thorough else next(fits, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return groups


def probes(changes: Mapping[str, tuple[object, str]], names: Iterable[str]) -> set[str]:
    """All probes that fail with some of the changes."""
    return {probe for name in names for probe in changes[name][1].split()}


def group_id(names: Sequence[str]) -> str:
    """The id for `pytest.mark.parametrize`."""
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def launcher(source: str, old: str, new: str) -> Callable[[ProofSubject, Artifacts], Artifacts]:
    """Change one position in a source of the launcher, and start the sandbox with the result."""

    def change(_subject: ProofSubject, artifacts: Artifacts) -> Artifacts:
        made = {each.name for each in artifacts}
        for name, program in _PROGRAMS.items():
            if name in made and source in {each.name for each in program.sources()}:
                edit = functools.partial(_edited_again, program, (source, old, new))
                artifacts = replaced(artifacts, name, edit)
        return artifacts

    return change


def _edited_again(program: PrebuiltProgram, edit: tuple[str, str, str], content: bytes) -> bytes:
    return edited(program, (*_EDITS[content], edit))


LATE = (
    "notify.c",
    "    stand_apart();\n    if (served.connects)",
    "    sleep(1);\n    stand_apart();\n    if (served.connects)",
)
"""A supervisor that starts a second after the first program inside has passed its listener."""

_PROGRAMS = {each.name: each for each in (LAUNCH, LAUNCH_INIT, LAUNCH_VM)}

_EDITS: dict[bytes, tuple[tuple[str, str, str], ...]] = {
    each.path("linux/amd64").read_bytes(): () for each in _PROGRAMS.values()
}
"""The edits in the sources of each program."""


def edited(program: PrebuiltProgram, edits: tuple[tuple[str, str, str], ...]) -> bytes:
    """A program with edits of its sources: each a source, a text that occurs once, and its replacement.

    By this machine's compiler; each source that another launcher of this run has too is compiled once.
    """
    texts = {each.name: each.read_text() for each in program.sources()}
    for source, old, new in edits:
        assert texts[source].count(old) == 1, f"{source} has not one {old}"
        texts[source] = texts[source].replace(old, new)
    store = Path(os.environ[FOLDER]) / "objects"
    store.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store) as scratch:
        for name, text in texts.items():
            (Path(scratch) / name).write_text(text)
        headers = "".join(text for name, text in sorted(texts.items()) if name.endswith(".h"))
        objects = [
            _compiled(Path(scratch) / name, store / f"{sha256((headers + text).encode()).hexdigest()}.o")
            for name, text in sorted(texts.items())
            if name.endswith(".c")
        ]
        made = Path(scratch) / "program"
        collect = ("-Wl,--gc-sections", "-o", made)
        process.run("cc", "-static", "-s", *collect, *objects, timeout=BUILD_TIMEOUT)
        _EDITS[made.read_bytes()] = edits
        return made.read_bytes()


def _compiled(source: Path, kept: Path) -> Path:
    if not kept.exists():
        made = source.with_suffix(".o")
        flags = ("-std=gnu11", "-O1", "-w", "-ffunction-sections", "-c")
        process.run("cc", *flags, "-o", made, source, timeout=BUILD_TIMEOUT)
        made.replace(kept)
    return kept


def plan(
    change: Callable[[ProofSubject, LaunchPlan], LaunchPlan],
) -> Callable[[ProofSubject, Artifacts], Artifacts]:
    """Change the launcher's plan."""
    return lambda subject, artifacts: replaced(
        artifacts, "launch.plan", lambda content: plan_bytes(change(subject, parse_plan(content)))
    )


def bpf(content: bytes) -> Callable[[ProofSubject, Artifacts], Artifacts]:
    """Another filter for bwrap."""
    return lambda _subject, artifacts: replaced(artifacts, "seccomp.bpf", lambda _: content)


def bpf_granting(*syscalls: str) -> Callable[[ProofSubject, Artifacts], Artifacts]:
    """bwrap's filter for a profile that permits some more calls, and the sandbox's own Unix sockets."""

    def weaken(subject: ProofSubject, artifacts: Artifacts) -> Artifacts:
        opened = granting(own_unix(engine_profile(subject.policy, host_sockets=False)), *syscalls)
        return replaced(artifacts, "seccomp.bpf", lambda _: compile_profile(opened, arch="amd64"))

    return weaken


def granting(profile: SeccompProfile, *syscalls: str) -> SeccompProfile:
    """A profile that permits some more calls, whatever their arguments are."""
    return replace(profile, rules=(SeccompRule(syscalls, ALLOW), *profile.rules))


def configuration(
    edit: Callable[[ProofSubject, dict[str, Any]], object],
) -> Callable[[ProofSubject, Artifacts], Artifacts]:
    """Change the configuration of an OCI runtime in place."""

    def weaken(subject: ProofSubject, artifacts: Artifacts) -> Artifacts:
        def change(content: bytes) -> bytes:
            document = json.loads(content.decode("utf-8", "surrogateescape"))
            edit(subject, document)
            text = json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
            return text.encode("utf-8", "surrogateescape")

        artifacts = replaced(artifacts, "config.json", change)
        config = next(each.content for each in artifacts if each.name == "config.json")

        def holes(_: ProofSubject, old: LaunchPlan) -> LaunchPlan:
            found = config_holes(config, own_network=old.runtime.own_network)
            return replace(old, runtime=replace(old.runtime, config_holes=found))

        return plan(holes)(subject, artifacts)

    return weaken
