"""Probes of reading and writing, on planted files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandwright.policy.uses import unprotected_names
from sandwright.questions import is_placeholder
from sandwright.runtime.probe.protocol import attempt
from sandwright.verify.fixture import HOSTILE, Fixture
from sandwright.verify.probe import Family, Probe, ProbeStep
from sandwright.verify.subject import ProofSubject, step

_SHARED = Path("/tmp")  # noqa: S108 - inside, and on the host
"""The shared temporary directory, unless the sandbox has a private one there."""


def probes(subject: ProofSubject) -> Iterator[Probe]:
    """The probes about planted files, the root, and private directories of the sandbox."""
    yield from _grants(subject)
    yield from _denied_probes(subject)
    yield from _readonly_probes(subject)
    yield _temporary_probe(subject)
    if subject.linux:
        yield from _system(subject)


def reads_plain(fixture: Fixture) -> ProbeStep:
    """The control for denied reads: a file beside the denied one can be read."""
    return ProbeStep(attempt("read", fixture.read / "plain"), "works", value=fixture.plain.encode())


def writes_plain(fixture: Fixture) -> ProbeStep:
    """The control for denied writes: a file beside the denied one can be opened for writing, unchanged."""
    return step("works", "write", fixture.write / "plain")


def inode_identity(path: Path) -> bytes:
    """Device and inode as the probe program writes them; a file of the image has other ones."""
    try:
        status = path.lstat()
    except OSError:
        return b"\0"
    return f" {status.st_dev}:{status.st_ino}".encode()


def _probe(
    name: str, about: str, *steps: ProbeStep, controls: tuple[ProbeStep, ...] = (), **more: object
) -> Probe:
    return Probe(f"files/{name}", Family.FILES, about, steps, controls, **more)  # type: ignore[arg-type]


def _grants(subject: ProofSubject) -> Iterator[Probe]:
    fixture = subject.fixture
    made = fixture.write / "made"
    yield _probe(
        "read", "a granted path is readable", reads_plain(fixture), step("listed", "list", fixture.read)
    )
    yield _probe(
        "write",
        "a new file exists on the host and belongs to the calling user",
        step("works", "create", made, fixture.word),
        step("works", "chmod", made, 0o640),
        step("works", "mkdir", fixture.write / "made-directory"),
        check=lambda: _content_fault(made, fixture.word, subject.owner),
    )
    yield _probe(
        "replace",
        "a writable file can be renamed and removed",
        step("works", "create", fixture.write / "first"),
        step("works", "rename", fixture.write / "first", fixture.write / "second"),
        step("works", "unlink", fixture.write / "second"),
        never=(
            fixture.write / "first",
            fixture.write / "second",
        ),
    )
    if subject.linux and subject.policy.is_path_writable(str(_SHARED)):
        mine = _SHARED / f".sandwright-{subject.word}"
        private = subject.policy.filesystem.tmp == "private"
        yield _probe(
            "temporary",
            "the temporary directory is writable",
            step("tmp.write" if private else "works", "create", mine, "x"),
            controls=(reads_plain(subject.fixture),),
            never=(mine,) if private else (),
            check=None if private else lambda: _removed(mine),
        )
    yield from _home_probes(subject)


def _home_probes(subject: ProofSubject) -> Iterator[Probe]:
    """The probes of a private home directory."""
    files = subject.policy.filesystem
    if not subject.linux or files.home == "host":
        return
    home, name = Path(subject.policy.canonical(subject.policy.facts.home)), f".sandwright-{subject.word}"
    made = Path(files.home_source, name)
    yield _probe(
        "home",
        "the home directory is the sandbox's own: it is writable, and nothing reaches the user's",
        step("home.write", "create", home / name, "x"),
        controls=(reads_plain(subject.fixture),),
        never=(home / name,),
        check=(lambda: _removed(made)) if files.home == "private" else None,
    )


def _denied_probes(subject: ProofSubject) -> Iterator[Probe]:
    fixture = subject.fixture
    control = (reads_plain(fixture),)
    denied, file = fixture.read / "denied", fixture.read / "denied-file"
    yield _probe(
        "denied-directory",
        "the contents of a denied directory are hidden, and nothing can be created in it",
        step("hidden.entry", "read", denied / "secret"),
        ProbeStep(attempt("list", denied), "hidden.list", value=b""),
        step("hidden.create", "create", denied / "new"),
        controls=control,
        never=(denied / "new",),
    )
    yield _probe(
        "denied-file",
        "a denied file can be neither read nor written, nor used as a directory",
        step("hidden.file", "content", file),
        step("hidden.file.write", "write", file),
        step("hidden.kind", "list", file),
        controls=(*control, step("works", "content", fixture.read / "plain")),
        check=lambda: _check_unchanged(file, fixture.word),
    )
    yield _probe(
        "denied-in-writable",
        "a denied path below a writable one is hidden",
        step("inside.entry", "read", fixture.write / "hidden/secret"),
        step("inside.create", "create", fixture.write / "hidden/new"),
        controls=(writes_plain(fixture),),
        never=(fixture.write / "hidden/new",),
    )
    yield _probe(
        "denied-neighbour",
        "a name with a denied name as its prefix is not denied",
        ProbeStep(attempt("read", fixture.read / "denied-not"), "works", value=fixture.plain.encode()),
    )
    yield _probe(
        "denied-names",
        "names with spaces, quotes, brackets, dashes and line breaks can be denied",
        *(step("hidden.entry", "read", fixture.read / name / "secret") for name in HOSTILE),
        controls=control,
    )


def _readonly_probes(subject: ProofSubject) -> Iterator[Probe]:
    fixture = subject.fixture
    plain, readonly = fixture.read / "plain", fixture.write / "kept"
    yield _probe(
        "read-only",
        "a read-only path cannot be written, changed or removed",
        *_all_writes("readonly.write", plain, fixture.read),
        controls=(reads_plain(fixture), writes_plain(fixture)),
        check=lambda: _check_unchanged(plain, fixture.plain),
    )
    yield _probe(
        "read-only-in-writable",
        "a read-only path below a writable one can be read and not changed",
        *_all_writes("inside.write", readonly / "file", readonly),
        step("inside.write", "write", fixture.write / "kept-file"),
        step("inside.write", "truncate", fixture.write / "kept-file"),
        ProbeStep(attempt("read", readonly / "file"), "works", value=fixture.plain.encode()),
        controls=(writes_plain(fixture),),
        check=lambda: (
            _check_unchanged(readonly / "file", fixture.plain)
            or _check_unchanged(fixture.write / "kept-file", fixture.plain)
        ),
    )
    yield from _missing_name_probes(subject)
    hooks = fixture.write / ".git/hooks"
    if any(
        name.value == ".git/hooks" for each in subject.policy.filesystem.protections for name in each.names
    ):
        yield _probe(
            "protected",
            "files of a repository that the host executes are read-only, and commits work",
            step("inside.write", "create", hooks / "pre-commit"),
            step("inside.write", "write", fixture.write / ".git/config"),
            step("commits", "create", fixture.write / ".git/refs/heads/main", "0"),
            step("commits", "create", fixture.write / ".git/index", "0"),
            controls=(writes_plain(fixture),),
            never=(hooks / "pre-commit",),
        )
        nested = fixture.nested / ".git"
        yield _probe(
            "protected-nested",
            "the same for existing repositories below a writable directory",
            step("inside.write", "create", nested / "hooks/pre-commit"),
            step("inside.write", "write", nested / "config"),
            step("commits", "create", nested / "refs/heads/main", "0"),
            controls=(step("works", "create", fixture.nested / "code"),),
            never=(nested / "hooks/pre-commit",),
        )


def _missing_name_probes(subject: ProofSubject) -> Iterator[Probe]:
    """Protected names of the project itself that don't exist; nothing where the project is not writable."""
    project = Path(subject.policy.canonical(subject.policy.facts.project))
    names = dict.fromkeys(
        path for path, _ in unprotected_names(subject.policy) if Path(path).parent == project
    )
    mine = project / f".sandwright-{subject.word}-other"
    tried = [Path(path) for path in names][:_NAMES]
    if tried:
        yield _probe(
            "protected-absent",
            "a missing protected name of the project cannot be created as a file, directory or link",
            *(each for path in tried for each in creation_attempts(path, mine)),
            controls=creation_controls(mine),
            check=lambda: find_created(tried, mine),
        )


_NAMES = 4
"""The number of protected names that are attempted; all are treated alike."""


def creation_controls(mine: Path) -> tuple[ProbeStep, ...]:
    """The controls of `creation_attempts`: beside such a name, a file can be created and renamed."""
    return (
        step("works", "create", mine),
        step("works", "rename", mine, f"{mine}-moved"),
        step("works", "rename", f"{mine}-moved", mine),
    )


def creation_attempts(path: Path, other: Path) -> Iterator[ProbeStep]:
    """Every way to create a name."""
    yield step("covered.make", "create", path)
    yield step("covered.make", "mkdir", path)
    yield step("covered.make", "symlink", "plain", path)
    yield step("covered.replace", "rename", other, path)
    yield step("covered.inside", "create", path / "new")
    yield step("covered.move", "rename", path, f"{other}-away")


def find_created(names: Sequence[Path], mine: Path) -> str | None:
    """The existing paths among names that must not be created, without another session's placeholders."""
    mine.unlink(missing_ok=True)
    found = [
        str(path) for path in names if os.path.lexists(path) and not is_placeholder(str(path), path.lstat())
    ]
    return f"{', '.join(found)} was made" if found else None


def _all_writes(claim: str, file: Path, directory: Path) -> Iterator[ProbeStep]:
    """Every way to change a file, and to create one beside it."""
    yield step(claim, "write", file)
    yield step(claim, "truncate", file)
    yield step("readonly.attributes", "chmod", file, 0o600)
    yield step("readonly.attributes", "utimes", file)
    yield step(claim, "unlink", file)
    yield step(claim, "create", directory / "new")
    yield step(claim, "mkdir", directory / "new-directory")
    yield step(claim, "symlink", "plain", directory / "new-link")


def _temporary_probe(subject: ProofSubject) -> Probe:
    """The probe of the host's temporary directory."""
    hidden = subject.fixture.temporary or Path("/tmp")  # noqa: S108
    private = subject.policy.filesystem.tmp == "private" and subject.linux
    claim = "works" if not private and subject.policy.is_path_readable(str(hidden)) else "tmp.hidden"
    return _probe(
        "temporary-of-host",
        "the host's temporary files are hidden if `tmp` is private, and visible if it is shared",
        step(claim, "stat", hidden),
        controls=(reads_plain(subject.fixture),),
        skip=_not_temporary(subject),
    )


def _not_temporary(subject: ProofSubject) -> str:
    """The reason why no temporary file of the host can be attempted."""
    if subject.properties.copies_project:
        return "the planted files are in the project, which is shown"
    return "" if subject.fixture.temporary else "cannot write to this host's /tmp"


_DEVICES = ("mem", "kmsg", "sda", "vda", "kvm", "loop0")
"""Devices that exist on some hosts."""


def _system(subject: ProofSubject) -> Iterator[Probe]:
    control = (writes_plain(subject.fixture),)
    made = tuple(Path(parent) / f".sandwright-{subject.word}" for parent in ("/", "/etc", "/usr"))
    yield _probe(
        "root",
        "the root and the system directories are read-only",
        *(step("readonly.write", "create", path) for path in made),
        controls=control,
        never=made,
    )
    yield _probe(
        "devices",
        "only harmless devices exist",
        *(step("device.seen", "stat", f"/dev/{name}") for name in _DEVICES),
        *(step("device.none", "read", f"/dev/{name}") for name in _DEVICES),
        ProbeStep(attempt("stat", "/dev/fuse"), "device.own", lacks=(inode_identity(Path("/dev/fuse")),)),
        controls=(step("works", "write", "/dev/null", "x"), step("works", "stat", "/dev/urandom")),
    )
    yield _probe(
        "device-nodes",
        "device nodes cannot be created; a FIFO can",
        step("device.make", "mknod", subject.fixture.write / "device", "c"),
        controls=(step("fifo.make", "mknod", subject.fixture.write / "fifo", "p"),),
        never=(subject.fixture.write / "device",),
    )


def _content_fault(path: Path, content: str, uid: int) -> str | None:
    if not path.is_file():
        return f"{path} is not there"
    owner = path.stat().st_uid
    return f"{path} belongs to {owner}, not {uid}" if owner != uid else _check_unchanged(path, content)


def _check_unchanged(path: Path, content: str) -> str | None:
    found = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
    return None if found == content else f"{path} was changed: {found!r}"


def _removed(path: Path) -> str | None:
    if not path.exists():
        return f"{path} is not on the host"
    path.unlink()
    return None
