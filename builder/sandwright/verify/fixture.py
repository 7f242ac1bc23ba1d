"""Plants files on the host for one method's run: files to read, to write and to fail at, and their grants.

The policy that is proved gets a layer for this run that grants these paths and nothing else; the report says
so.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from sandwright.runtime.probe import own_probe
from sandwright.runtime.scratch import hidden_directory, link_bus, scratch_directory, state_directory

_TMP = Path("/tmp")  # noqa: S108

HOSTILE = ("with space", "quote'\"s", "(paren)\\back", "-dash", "line\nbreak", "ünïcode")
"""Names that a parser between policy and kernel may misread."""


@dataclass(frozen=True)
class Fixture:
    """The files that a proof plants for its probes below `root`. Denied files contain `word`, others `plain`.

    `probe` is the directory that holds the program. `inside`: the method enforces rules inside writable
    paths. `hidden` is for programs that the host executes, `runtime` for sockets and run directories.
    `temporary` is a directory of the host in `/tmp`; None where that can't be written.
    """

    root: Path
    word: str
    plain: str
    hidden: Path
    runtime: Path
    inside: bool = True
    temporary: Path | None = None

    @property
    def probe(self) -> Path:
        """The program's directory."""
        return self.root / "bin"

    @property
    def program(self) -> Path:
        """The probe program."""
        return self.probe / "probe"

    @property
    def read(self) -> Path:
        """A directory that may be read."""
        return self.root / "read"

    @property
    def write(self) -> Path:
        """A directory that may be written."""
        return self.root / "write"

    @property
    def nested(self) -> Path:
        """A Git work tree in the writable directory that is not a submodule."""
        return self.write / "workspace/app"

    @property
    def state(self) -> Path:
        """The directory for the launcher's state, which must be empty after a run."""
        return self.runtime / "state"

    @property
    def artifacts(self) -> Path:
        """The directory for the method's artifacts."""
        return self.hidden / "artifacts"

    @property
    def ungranted(self) -> Path:
        """A directory that the layer of this run does not mention."""
        return self.root / "ungranted"

    @property
    def later(self) -> Path:
        """A denied file that is created during a run."""
        return self.read / "denied-later"

    def grants(self) -> dict[str, list[str]]:
        """The layer of this run, by field of the policy; `...` stands for the values of other layers."""
        read, write = str(self.read), str(self.write)
        return {
            "filesystem.read": ["...", str(self.probe), read],
            "filesystem.write": ["...", write],
            "filesystem.readonly": [
                f"{write}/{name}" for name in ("kept", "kept-file", "deep/er/kept") if self.inside
            ],
            "filesystem.deny": [
                f"{read}/denied",
                f"{read}/denied-file",
                str(self.later),
                *([f"{write}/hidden", f"{write}/in-the-way/name"] if self.inside else []),
                *(f"{read}/{name}" for name in HOSTILE),
            ],
        }

    def settings(self, *read: Path) -> list[str]:
        """The layer of this run, as settings for `run_layer`; `read` is readable, too."""
        grants = self.grants()
        grants["filesystem.read"] += map(str, read)
        return [f"{field}={json.dumps(paths)}" for field, paths in grants.items()]


@contextmanager
def plant_fixture(parent: Path | None = None, *, inside: bool = True) -> Iterator[Fixture]:
    """Plant everything in a new directory, with a copy of the probe program. It is removed at the end.

    `parent` is the directory that it is made in; absent, that of `scratch_directory`. `inside` is the
    fixture's.
    """
    with scratch_directory(parent) as root, _directory_in_tmp() as temporary:
        words = uuid.uuid4().hex, uuid.uuid4().hex
        hidden, runtime = hidden_directory(root).resolve(), state_directory(root / "f").resolve()
        fixture = Fixture(root.resolve(), *words, hidden, runtime, inside, temporary)
        for directory in _planted_directories(fixture):
            directory.mkdir(parents=True)
        link_bus(fixture.state)
        for file, content in _planted_files(fixture).items():
            file.write_text(content, encoding="utf-8")
        shutil.copyfile(own_probe(), fixture.program)
        fixture.program.chmod(0o755)
        (fixture.read / "link-to-denied").symlink_to("denied/secret")
        yield fixture


def _directory_in_tmp() -> AbstractContextManager[Path | None]:
    return scratch_directory(_TMP) if os.access(_TMP, os.W_OK) else nullcontext()


def _planted_directories(fixture: Fixture) -> Iterator[Path]:
    yield from (fixture.probe, fixture.read / "denied", fixture.state, fixture.artifacts, fixture.ungranted)
    yield from (fixture.read / name for name in HOSTILE)
    yield from (
        fixture.write / name for name in ("kept", "hidden", "deep/er/kept", ".git/hooks", ".git/objects")
    )
    yield fixture.write / ".git/refs/heads"
    yield from (fixture.nested / ".git" / name for name in ("hooks", "objects", "refs/heads"))


def _planted_files(fixture: Fixture) -> dict[Path, str]:
    read, write = fixture.read, fixture.write
    return {
        read / "plain": fixture.plain,
        read / "denied/secret": fixture.word,
        read / "denied-file": fixture.word,
        read / "denied-not": fixture.plain,
        **{read / name / "secret": fixture.word for name in HOSTILE},
        write / "plain": fixture.plain,
        write / "kept/file": fixture.plain,
        write / "kept-file": fixture.plain,
        write / "in-the-way": fixture.plain,
        write / "hidden/secret": fixture.word,
        write / "deep/er/kept/file": fixture.plain,
        write / ".git/HEAD": "ref: refs/heads/main\n",
        write / ".git/config": "[core]\n\trepositoryformatversion = 0\n",
        write / ".git/hooks/pre-commit.sample": "#!/bin/sh\n",
        fixture.nested / ".git/HEAD": "ref: refs/heads/main\n",
        fixture.nested / ".git/config": "[core]\n\trepositoryformatversion = 0\n",
    }
