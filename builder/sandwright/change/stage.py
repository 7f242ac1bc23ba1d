"""A home and a project of their own, in which changes of a policy are attempted instead of in the user's."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sandwright import process, user_dirs
from sandwright.change.policies import PolicyPair
from sandwright.change.questions import NEIGHBOUR
from sandwright.evaluate.boundary import CHILD
from sandwright.policy.load import run_layer
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.paths import is_inside
from sandwright.policy.resolved import ResolvedPolicy
from sandwright.runtime.probe import own_probe


@dataclass(frozen=True)
class Stage:
    """A directory tree in which attempts are made. `word` is in every planted file.

    `places` are the user's project and home, each with where it is here. `hidden` is the directory for files
    that the host executes or obeys, because another sandbox may write below `root`.
    """

    root: Path
    hidden: Path
    word: str
    places: tuple[tuple[str, Path], ...]

    @property
    def program(self) -> Path:
        """The probe program."""
        return self.root / "bin" / "probe"

    @property
    def state(self) -> Path:
        """The directory in which launchers keep data of their runs."""
        return self.hidden / "state"

    @property
    def home(self) -> Path:
        """The home directory of the stage."""
        return self.root / "home"

    @property
    def project(self) -> Path:
        """The project directory of the stage."""
        return self.places[0][1]

    @property
    def environment(self) -> dict[str, str]:
        """The launcher's environment. Of the caller's variables it has PATH without projects' directories."""
        return {"PATH": process.search_path(), "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.state)}

    def moved(self, path: str) -> str | None:
        """The path on the stage for one of the user's paths; None outside of the project and the home."""
        for original, here in self.places:
            if is_inside(path, original) and original != "/":
                return str(here) + path[len(original) :]
        return None

    def plant(self, path: str, kind: str | None) -> None:
        """Create a file, or a directory with a file in it, but nothing below a file. Existing files stay.

        `kind` is the type of the user's file. A missing one counts as a directory, because rules hold for all
        paths below it.
        """
        target = Path(path)
        if target.exists() or not is_inside(path, str(self.root)):
            return
        if any(above.is_file() for above in target.parents):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        made_up = target.name == CHILD or target.name.endswith(NEIGHBOUR)
        if kind == "file" or (kind is None and made_up):
            target.write_text(self.word)
        elif kind in ("directory", None):
            target.mkdir()
            (target / self.word).write_text(self.word)


@contextlib.contextmanager
def make_stage(facts_of: ResolvedPolicy) -> Iterator[Stage]:
    """A stage for policies of a host, where other sandboxes can't write. Gone at the end.

    Raise HostError, OSError.
    """
    facts = facts_of.facts
    # Not in /tmp, of which sandboxes have one of their own.
    root = Path(tempfile.mkdtemp(prefix="sandwright-stage-", dir=user_dirs.visible_scratch())).resolve()
    hidden = Path(tempfile.mkdtemp(prefix="stage-", dir=user_dirs.scratch())).resolve()
    try:
        project, home = facts_of.canonical(facts.project), facts_of.canonical(facts.home)
        inner = root / "home" / project[len(home) :].lstrip("/") if is_inside(project, home) else None
        stage = Stage(
            root,
            hidden,
            uuid.uuid4().hex,
            ((project, inner if inner and project != home else root / "project"), (home, root / "home")),
        )
        for directory in (stage.home, stage.project, stage.state, stage.program.parent):
            directory.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(own_probe(), stage.program)
        stage.program.chmod(0o755)
        yield stage
    finally:
        shutil.rmtree(root, ignore_errors=True)
        shutil.rmtree(hidden, ignore_errors=True)


def resolve_staged(
    pair: PolicyPair, stage: Stage, planted: Iterable[tuple[str, str | None]], environ: Mapping[str, str]
) -> tuple[ResolvedPolicy, ResolvedPolicy]:
    """Resolve both policies on the stage, once everything is planted.

    `planted` are paths of the stage, each with the type of the user's file.
    """
    for path, kind in sorted(planted):
        stage.plant(path, kind)
    file = stage.project / pair.file.name
    file.touch()
    here = pair.at(file)
    granted = run_layer([f'filesystem.read=["...", "{stage.program.parent}"]'])
    assert granted is not None
    old, new = (MergedPolicy.from_layers([*each.layers, granted]) for each in (here.old, here.new))
    environment = {**environ, "HOME": str(stage.home)}
    return PolicyPair(old, new, file).resolve(stage.project, environment)
