"""What is planted on the host for one method's run: files to read, write and fail at, and what grants them.

The policy that is proved gets a layer for this run that grants these paths and nothing else; the report says
so.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sandwright.runtime.probe import own_probe
from sandwright.runtime.scratch import scratch_directory

HOSTILE = ("with space", "quote'\"s", "(paren)\\back", "-dash", "line\nbreak", "ünïcode")
"""Names that something between a policy and a kernel may take for something else."""


@dataclass(frozen=True)
class Ground:
    """Planted files below `root`. `word` is in each of them that must not be seen, `plain` in those that may.

    `probe` is the directory that holds the program.
    """

    root: Path
    word: str
    plain: str

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
    def state(self) -> Path:
        """What the method keeps of its run: nothing must be left here."""
        return self.root / "state"

    @property
    def artifacts(self) -> Path:
        """Where the method's artifacts are put."""
        return self.root / "artifacts"

    def grants(self) -> dict[str, list[str]]:
        """What the layer of this run says, by field of the policy; `...` stands for what other layers say."""
        read, write = str(self.read), str(self.write)
        return {
            "filesystem.read": ["...", str(self.probe), read],
            "filesystem.write": ["...", write],
            "filesystem.readonly": [f"{write}/kept", f"{write}/kept-file", f"{write}/deep/er/kept"],
            "filesystem.deny": [
                f"{read}/denied",
                f"{read}/denied-file",
                f"{write}/hidden",
                *(f"{read}/{name}" for name in HOSTILE),
            ],
        }

    def settings(self, *read: Path) -> list[str]:
        """The layer of this run, as settings that `run_layer` takes; `read` may be read besides."""
        grants = self.grants()
        grants["filesystem.read"] += map(str, read)
        return [f"{field}={json.dumps(paths)}" for field, paths in grants.items()]


@contextmanager
def planted() -> Iterator[Ground]:
    """Plant everything in a new directory, with a copy of the probe program. Gone at the end."""
    with scratch_directory() as root:
        ground = Ground(root.resolve(), uuid.uuid4().hex, uuid.uuid4().hex)
        for directory in _directories(ground):
            directory.mkdir(parents=True)
        for file, content in _files(ground).items():
            file.write_text(content, encoding="utf-8")
        shutil.copyfile(own_probe(), ground.program)
        ground.program.chmod(0o755)
        (ground.read / "link-to-denied").symlink_to("denied/secret")
        yield ground


def _directories(ground: Ground) -> Iterator[Path]:
    yield from (ground.probe, ground.read / "denied", ground.state, ground.artifacts)
    yield from (ground.read / name for name in HOSTILE)
    yield from (
        ground.write / name for name in ("kept", "hidden", "deep/er/kept", ".git/hooks", ".git/objects")
    )
    yield ground.write / ".git/refs/heads"


def _files(ground: Ground) -> dict[Path, str]:
    read, write = ground.read, ground.write
    return {
        read / "plain": ground.plain,
        read / "denied/secret": ground.word,
        read / "denied-file": ground.word,
        read / "denied-not": ground.plain,
        **{read / name / "secret": ground.word for name in HOSTILE},
        write / "plain": ground.plain,
        write / "kept/file": ground.plain,
        write / "kept-file": ground.plain,
        write / "hidden/secret": ground.word,
        write / "deep/er/kept/file": ground.plain,
        write / ".git/HEAD": "ref: refs/heads/main\n",
        write / ".git/config": "[core]\n\trepositoryformatversion = 0\n",
        write / ".git/hooks/pre-commit.sample": "#!/bin/sh\n",
    }


def shared_directory() -> Path:
    """The temporary directory of the host that sandboxes with `tmp: shared` see, and others don't."""
    return Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - it is what is asked about
