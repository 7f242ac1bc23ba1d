"""Ways around a path's rule: links, renames, mount points, other names of the same file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.catalogue.files import reads_plain, writes_plain
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.subject import ProofSubject, step


def probes(subject: ProofSubject) -> Iterator[Probe]:
    """The probes of this family."""
    yield from _links(subject)
    yield from _renames(subject)
    if subject.linux:
        yield from _other_names(subject)


def _probe(
    name: str,
    about: str,
    *steps: ProbeStep,
    controls: tuple[ProbeStep, ...],
    never: tuple[Path, ...] = (),
) -> Probe:
    return Probe(f"links/{name}", Family.LINKS, about, steps, controls, never=never)


def _links(subject: ProofSubject) -> Iterator[Probe]:
    fixture = subject.fixture
    write, control = fixture.write, (reads_plain(fixture), writes_plain(fixture))
    yield _probe(
        "symbolic-to-denied",
        "a symbolic link to a denied path, created before or during the run, gives no access",
        step("hidden.entry", "read", fixture.read / "link-to-denied"),
        step("works", "symlink", fixture.read / "denied/secret", write / "to-denied"),
        step("hidden.entry", "read", write / "to-denied"),
        controls=control,
    )
    yield _probe(
        "symbolic-to-read-only",
        "writes through a symbolic link follow the rule of its target",
        step("works", "symlink", fixture.read / "plain", write / "to-plain"),
        step("readonly.write", "write", write / "to-plain"),
        step("works", "symlink", fixture.read, write / "to-read"),
        step("readonly.write", "create", write / "to-read/new"),
        controls=control,
    )
    yield _probe(
        "dots",
        "rules apply to the resolved path, also with `..`",
        step("hidden.entry", "read", f"{write}/../read/denied/secret"),
        step("readonly.write", "create", f"{write}/../read/new"),
        controls=control,
    )
    yield _probe(
        "hard",
        "hard links to read-only or denied files cannot be created",
        step("link.across", "link", fixture.read / "plain", write / "hard"),
        step("inside.link", "link", write / "kept-file", write / "hard-kept"),
        step("link.denied", "link", fixture.read / "denied/secret", write / "hard-denied"),
        controls=(step("works", "link", write / "plain", write / "hard-plain"), *control),
    )


def _renames(subject: ProofSubject) -> Iterator[Probe]:
    write = subject.fixture.write
    yield _probe(
        "move-restricted",
        "a restricted path cannot be moved, replaced or removed",
        step("readonly.move", "rename", write / "kept", write / "away-kept"),
        step("readonly.move", "rename", write / "kept-file", write / "away-file"),
        step("readonly.move", "rename", write / "hidden", write / "away-hidden"),
        step("readonly.move", "rename", write / "one-file", write / "kept-file"),
        step("readonly.move", "unlink", write / "kept-file"),
        step("readonly.move", "rmdir", write / "hidden"),
        controls=_moves(write, "one"),
    )
    yield _probe(
        "move-parent",
        "parent directories of restricted paths cannot be moved",
        step("readonly.move", "rename", write / "deep", write / "away-deep"),
        step("readonly.move", "rename", write / "deep/er", write / "deep/away"),
        controls=_moves(write, "two"),
    )
    yield _probe(
        "move-file",
        "a file in place of a parent directory of a denied name cannot be moved, replaced or removed",
        step("readonly.move", "rename", write / "in-the-way", write / "away-in-the-way"),
        step("readonly.move", "rename", write / "five-file", write / "in-the-way"),
        step("readonly.move", "unlink", write / "in-the-way"),
        controls=_moves(write, "five"),
    )
    if subject.linux:
        yield _probe(
            "exchange",
            "a restricted path cannot be exchanged with another path",
            step("exchange", "exchange", write / "kept-file", write / "three-file"),
            step("exchange", "exchange", write / "deep", write / "three-moved"),
            controls=_moves(write, "three"),
        )
    if _protects_git(subject):
        yield _probe(
            "move-repository",
            "the directory of a repository cannot be moved, and its hooks cannot be redirected",
            step("readonly.move", "rename", write / ".git", write / "away-git"),
            step("covered.write", "write", write / ".git/commondir"),
            controls=_moves(write, "four"),
        )
        yield _git_links(write)


def _git_links(write: Path) -> Probe:
    """The probes of files that Git on the host writes, also through links."""
    names = [write / ".git" / name for name in ("COMMIT_EDITMSG", "objects/new", "refs/heads/new")]
    link, folder = write / "linked", write / "linking"
    return _probe(
        "git",
        "no link can be made in a Git directory, nor moved there, alone or in a directory",
        *(step("git.symlink", "symlink", "elsewhere", name) for name in names),
        *(step("git.move", action, link, name) for name in names for action in ("rename", "link")),
        step("git.move", "rename", folder, write / ".git/folder"),
        controls=(
            step("works", "symlink", "elsewhere", link),
            step("works", "mkdir", folder),
            step("works", "symlink", "elsewhere", folder / "COMMIT_EDITMSG"),
        ),
        never=(*names, write / ".git/folder"),
    )


def _moves(write: Path, name: str) -> tuple[ProbeStep, ...]:
    """The controls: unrestricted paths and a file of the probe can be moved."""
    return (
        step("works", "mkdir", write / name),
        step("works", "rename", write / name, write / f"{name}-moved"),
        step("works", "create", write / f"{name}-file"),
    )


def _protects_git(subject: ProofSubject) -> bool:
    names = {name.value for each in subject.policy.filesystem.protections for name in each.names}
    return {".git/hooks", ".git/config", ".git/commondir"} <= names


def _other_names(subject: ProofSubject) -> Iterator[Probe]:
    fixture = subject.fixture
    secret = (fixture.word.encode(),)
    control = (reads_plain(fixture),)
    through = Path("/proc/self/root") / str(fixture.read / "denied/secret").lstrip("/")
    yield _probe(
        "through-proc",
        "links in the sandbox's /proc lead to the sandbox's root",
        ProbeStep(attempt("read", through), "hidden.entry", lacks=secret),
        ProbeStep(
            attempt("read", "/proc/self/cwd/../../../../../.." + str(fixture.read / "denied/secret")),
            "hidden.entry",
        ),
        controls=(*control, step("works", "stat", "/proc/self/root/proc")),
    )
    yield _probe(
        "by-handle",
        "files cannot be opened by handle, which bypasses path lookup",
        step("privilege.none", "handle", fixture.write),
        controls=(step("works", "list", fixture.write),),
    )
