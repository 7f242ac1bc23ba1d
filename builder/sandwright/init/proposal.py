"""The policy that is proposed for a project: its text, with a comment for each choice. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandwright.init.languages import Language
from sandwright.init.project import ProjectFacts, project_path
from sandwright.policy.declaration import Support
from sandwright.policy.names import CACHES

SCHEMA_FILE = ".sandbox/policy.schema.json"
"""Where editors find the JSON Schema, from the project's directory; its directory is protected."""

_WIDTH = 100
_PLAIN = re.compile(r"[$~A-Za-z/][$A-Za-z0-9_./+~-]*")


@dataclass(frozen=True)
class Choice:
    """What a policy is proposed for: the method, why it, and what it makes of each feature of a policy.

    `agent` is the coding agent that works in the project, if any.
    """

    method: str
    why: str
    declaration: Mapping[str, Support]
    agent: str = ""

    def can(self, feature: str) -> bool:
        """Whether the method enforces a feature."""
        support = self.declaration.get(feature)
        return support is not None and support.level != "cannot"


def proposal(project: ProjectFacts, choice: Choice) -> str:
    """The text of a `sandbox.yaml`: the same for the same project and choice."""
    sections = [
        _header_lines(project),
        _method(choice),
        _filesystem_section(project, choice),
        _network_section(project, choice),
        _environment_section(project),
        _seatbelt(project, choice),
        _resources_section(choice),
        _accepted_gaps_section(project, choice),
    ]
    return "\n".join("".join(f"{line}\n" for line in section) for section in map(list, sections) if section)


def _header_lines(project: ProjectFacts) -> Iterator[str]:
    found = ", ".join(each.name for each in project.languages) or "no language that it knows"
    yield f"# yaml-language-server: $schema={SCHEMA_FILE}"
    yield from _comment(
        f"What a command may do in this project. Proposed by `sandwright init`, which found {found}; it is "
        "yours to change. `sandwright explain write PATH` and `sandwright verify` say what it does."
    )
    yield "schema: 1"


def _method(choice: Choice) -> Iterator[str]:
    yield from _comment(f"How it is enforced. {choice.why}")
    yield f"method: {choice.method}"
    yield ""
    yield from _comment(
        "The host can be read, but for where secrets are kept (~/.ssh, ~/.aws, browsers, …). With [strict] "
        "only the project can, and what programs need to start."
    )
    if choice.agent:
        yield from _comment(
            f"agent-{choice.agent} adds what {choice.agent} needs: a directory for its state that the "
            f"host's own {choice.agent} doesn't use, the hosts of its model, and the variable with its key."
        )
    yield f"extends: [{f'agent-{choice.agent}' if choice.agent else 'default'}]"


def _filesystem_section(project: ProjectFacts, choice: Choice) -> Iterator[str]:
    yield "filesystem:"
    git = _GIT[project.git]
    yield from _comment(
        "This directory, and a temporary one of each run. What the host runs by itself from here (settings "
        f"of editors, shells and agents) stays read-only.{git}",
        2,
    )
    yield "  write:"
    yield from ['    - "..."  # what the preset grants'] if choice.agent else []
    yield "    - $PROJECT"
    if project.git == "worktree":
        yield from _comment(
            "This is a linked worktree: what commits write is in its repository, elsewhere. That needs your "
            "word once (`sandwright trust`). Without this line, commit outside.",
            2,
        )
        yield "  git: [worktree]"
    if project.pipelines:
        systems = ", ".join(dict.fromkeys(name for _, name in project.pipelines))
        yield from _comment(f"{systems} runs these, with its secrets: only people change them.", 2)
        yield "  readonly:"
        yield from _items(path for path, _ in project.pipelines)
    if project.secrets:
        yield from _comment("By their names these hold secrets. Take out what holds none.", 2)
        yield "  deny:"
        yield from _items(project.secrets)
    if project.shared:
        yield from _comment(
            "By their names these hold secrets, too, but Git tracks them, or they are links: everybody who "
            "has the repository has them, and hidden they may break `git commit`, or tools that read them. "
            "Remove the `#` from each path to hide.",
            2,
        )
        yield from () if project.secrets else ("  # deny:",)
        yield from (f"  # {item.strip()}" for item in _items(project.shared))
    if project.strange:
        yield from _comment(
            f"{len(project.strange)} more files look like secrets and have names that no policy can "
            "spell (`sandwright init` prints them): they can be read.",
            2,
        )


_GIT = {
    "": "",
    "repository": " In .git, hooks and config stay read-only.",
    "worktree": " In the repository, hooks and config stay read-only.",
    "elsewhere": " The repository lies elsewhere and stays read-only as a whole: commit outside.",
}


def _network_section(project: ProjectFacts, choice: Choice) -> Iterator[str]:
    yield "network:"
    hosts = ", ".join(dict.fromkeys(host for each in project.languages for host in each.registries))
    if choice.agent:
        yield from _comment(
            f"{choice.agent} reaches its model, by the preset. More hosts: {hosts or 'HOST'}", 2
        )
        yield f'  # allow: ["...", {hosts or "HOST"}]'
    elif hosts:
        yield "  # None. To install dependencies, for one run:"
        yield f"  #   sandwright run --set network.mode=proxy --set 'network.allow=[{hosts}]' -- …"
    else:
        yield "  # None. `mode: proxy` with `allow: [HOST, …]` allows the listed hosts."
    yield "  mode: proxy" if choice.agent else "  mode: none"
    if project.containers:
        yield from _comment(
            f"{_example_paths(project.containers)}: the sockets of container engines are always closed,"
            " since a program that reaches one controls the host. Build images outside.",
            2,
        )


def _environment_section(project: ProjectFacts) -> Iterator[str]:
    caches = _merge_caches(project.languages)
    if not caches:
        return
    yield "environment:"
    cache_names = [name for name, variables in CACHES.items() if not caches.keys().isdisjoint(variables)]
    keeps = (
        f" `cache: [{', '.join(cache_names)}]` keeps them for this project instead." if cache_names else ""
    )
    yield from _comment(
        "Of the host's variables only harmless ones are passed (LANG, PATH, TERM, …). The home can't be "
        f"written, so caches go to the run's own directory.{keeps}",
        2,
    )
    yield "  set:"
    yield from (f"    {name}: {_scalar(value)}" for name, value in caches.items())


def _seatbelt(project: ProjectFacts, choice: Choice) -> Iterator[str]:
    fragments = list(dict.fromkeys(name for each in project.languages for name in each.fragments))
    if fragments and choice.declaration["macos"].level == "exact":
        needing = ", ".join(each.name for each in project.languages if each.fragments)
        yield from _comment(f"What {needing} asks of macOS, beside what the preset opens.")
        yield f'macos: ["...", {", ".join(fragments)}]'


def _resources_section(choice: Choice) -> Iterator[str]:
    if choice.can("resources.time"):
        yield "resources:"
        yield from _comment("A run that hangs is ended.", 2)
        yield "  time: 8h"


def _accepted_gaps_section(project: ProjectFacts, choice: Choice) -> Iterator[str]:
    """The parts of the proposal that the method can't enforce, each with the reason for accepting it."""
    lacking = {name: why for name, why in _gap_reasons(project).items() if not choice.can(name)}
    if not lacking:
        return
    yield from _comment(
        f"What {choice.method} can't do of this, accepted by name. Without its line each would be an error: "
        "take a line out where you don't agree."
    )
    yield "accept_gaps:"
    for feature, reason in lacking.items():
        yield f"  - feature: {feature}"
        yield f"    method: {choice.method}"
        yield f"    reason: {reason}"


def _gap_reasons(project: ProjectFacts) -> Mapping[str, str]:
    """What some method lacks of what any proposal asks for, and why one may take that.

    Another checkout may lack the denied paths, and most methods could not prevent their creation. Only people
    accept that secrets of the project can be read.
    """
    changed = "what commands changed is looked at before the host runs it"
    restricts = bool(project.secrets or project.pipelines)
    return {
        "filesystem.protect": changed,
        "filesystem.attributes": "names, sizes and times of files are no secret here",
        "process.kernel": "no other processes here have secrets among their arguments",
        **({"filesystem.readonly": changed} if project.pipelines else {}),
        **(
            {"filesystem.absent": "a checkout without these files has nothing in them to hide"}
            if restricts
            else {}
        ),
    }


def _merge_caches(languages: Sequence[Language]) -> dict[str, str]:
    return {name: value for each in languages for name, value in each.caches.items()}


def _items(paths: Iterator[str] | Sequence[str]) -> Iterator[str]:
    yield from (f"    - {_scalar(project_path(path))}" for path in paths)


def _scalar(text: str) -> str:
    """A text as YAML has it: plain where nothing in it means anything, else in double quotes."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _example_paths(paths: Sequence[str]) -> str:
    names = [path for path in paths if path.isascii() and path.isprintable()][:2]
    return ", ".join([*names, *(["…"] if len(names) < len(paths) else [])])


def _comment(text: str, indent: int = 0) -> list[str]:
    """Lines of a comment, broken between words."""
    margin = " " * indent + "# "
    lines = [margin.rstrip()]
    for word in text.split(" "):
        if len(lines[-1]) + 1 + len(word) > _WIDTH and lines[-1] != margin.rstrip():
            lines.append(margin.rstrip())
        lines[-1] += f" {word}"
    return lines
