"""`sandwright init` without a terminal: look, propose, check, and write after confirmation."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

from sandwright.errors import HostError, RenderError, UsageError
from sandwright.init.chosen import Chosen, choose
from sandwright.init.files import create, keep_from_git
from sandwright.init.project import ProjectFacts, examine_project
from sandwright.init.proposal import SCHEMA_FILE, Choice, proposal
from sandwright.methods import registry
from sandwright.outputs import write_output
from sandwright.policy.collect import collect_facts
from sandwright.policy.facts import HostEntry
from sandwright.policy.load import layer, layers_for
from sandwright.policy.merged import MergedPolicy
from sandwright.policy.schema import policy_schema
from sandwright.session.persistent import with_persistent

POLICY = "sandbox.yaml"


@dataclass(frozen=True)
class Proposed:
    """A policy for a project that has none yet, with remarks for the user.

    `text` loads and renders for the method on this host. `notes` are about this machine and this project,
    `next_steps` are commands.
    """

    directory: Path
    method: str
    text: str
    notes: tuple[str, ...]
    next_steps: tuple[str, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that `write` creates."""
        return self.directory / POLICY, self.directory / SCHEMA_FILE

    def write(self) -> None:
        """Write the policy, and the schema that editors look for.

        Raise UsageError when a policy has come in between; HostError when it can't be written. Then no half
        of a policy is there.
        """
        _refuse_existing(self.directory)
        schema = self.directory / SCHEMA_FILE
        _refuse_others(schema)
        try:
            create(self.directory / POLICY, self.text)
            schema.parent.mkdir(exist_ok=True)
            keep_from_git(schema.parent)
            write_output(str(schema), _schema_text().encode())
        except FileExistsError:
            raise UsageError(f"{self.directory / POLICY} is there already, and stays as it is") from None
        except OSError as error:
            raise HostError(f"cannot write {error.filename}: {error.strerror}") from error


def propose(directory: Path, *, method: str = "", agent: str = "", review: bool = False) -> Proposed:
    """Propose a policy for a project, with `review` for a copy of it. Only the preflights' cache is written.

    Raise UsageError where there is a policy already, for a directory that is not a project and for an unknown
    method; RenderError when the named method can't enforce the proposal, or the managed or user policy
    forbids it.
    """
    _refuse_existing(directory)
    _refuse_others(directory / SCHEMA_FILE)
    project = examine_project(directory)
    chosen = choose(method)
    notes: list[str] = []
    try:
        text = _checked_proposal(directory, project, chosen, agent, review=review)
    except RenderError as error:
        if method or not registry.properties(chosen.method).last_resort:
            raise
        notes = [f"it starts here, and is not enough: {line}" for line in str(error).splitlines()[:-1]]
        chosen = chosen.without_last()
        text = _checked_proposal(directory, project, chosen, agent, review=review)
    return Proposed(
        directory,
        chosen.method,
        text,
        (*_proposal_notes(project, chosen), *notes),
        _next_steps(project, chosen.method, agent),
    )


def can_review(method: str) -> bool:
    """Whether runs of a method can change a copy of the project."""
    return registry.declaration(method).of("workspace").level == "exact"


def _checked_proposal(
    directory: Path, project: ProjectFacts, chosen: Chosen, agent: str, *, review: bool
) -> str:
    """The text for a method. Raise like `check_proposal`."""
    support = registry.declaration(chosen.method).support
    text = proposal(project, Choice(chosen.method, _why_chosen(chosen), support, agent, review))
    check_proposal(directory, text, chosen.method)
    return text


def check_proposal(directory: Path, text: str, method: str) -> None:
    """Check that a text is a policy that renders for a method, with all layers that apply here.

    Raise the exceptions of loading and rendering: DocumentError, UsageError, RenderError.
    """
    target = directory.absolute() / POLICY
    registered = registry.registered()
    written_layer = replace(layer(text, file=POLICY, methods=registered), file=str(target))
    others = [
        each
        for each in layers_for(directory, os.environ, methods=registered)
        if each.kind not in ("project", "run")
    ]
    policy = MergedPolicy.from_layers([*others, written_layer])
    written = {str(target): HostEntry("file"), os.path.realpath(target): HostEntry("file")}
    resolved = policy.resolve(with_persistent(collect_facts(policy), policy).with_entries(written))
    registry.render(resolved, method)


def _why_chosen(chosen: Chosen) -> str:
    if chosen.ready:
        return "A sandbox of it was started here, and hid what it should. Others: `sandwright doctor`."
    if not chosen.attempts:
        return "It was asked for, and is not started from here."
    return "On the machine of `sandwright init` it did not work: see `sandwright doctor`."


def _proposal_notes(project: ProjectFacts, chosen: Chosen) -> list[str]:
    notes = [f"does not work here: {each.describe()}" for each in chosen.attempts if not each.ready]
    notes += [f"it looks like a secret and cannot be named in a policy: {each!r}" for each in project.strange]
    if not project.whole:
        notes.append("the project has more files than were looked at: look for secrets in it yourself")
    return notes


def _next_steps(project: ProjectFacts, method: str, agent: str) -> tuple[str, ...]:
    command = agent or (project.try_out or ("COMMAND",))[0]
    properties = registry.properties(method)
    trust = ("sandwright trust",) if agent or project.git == "worktree" or properties.last_resort else ()
    needed = "dev" if agent else "debian"
    image = (f"sandwright build-images --name {needed}",) if properties.needs_image else ()
    return (*image, *trust, "sandwright verify", f"sandwright run -- {command}")


def _refuse_existing(directory: Path) -> None:
    path = directory / POLICY
    if os.path.lexists(path):
        raise UsageError(f"{path} is there already, and stays as it is")


def _refuse_others(schema: Path) -> None:
    """A checkout may hold anything by these names."""
    for each in (schema.parent, schema):
        if each.is_symlink():
            raise UsageError(f"{each} is a symbolic link: nothing is written through one")
    if os.path.lexists(schema.parent) and not schema.parent.is_dir():
        raise UsageError(f"{schema.parent} is no directory, and the schema for editors belongs there")
    if os.path.lexists(schema) and not schema.is_file():
        raise UsageError(f"{schema} is no file, and the schema for editors belongs there")


def _schema_text() -> str:
    return json.dumps(policy_schema(), indent=2, sort_keys=True) + "\n"
