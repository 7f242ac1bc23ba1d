"""The text of the policy that `init` proposes for a project, with a comment for each choice. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sandwright.init.project import ProjectFacts, project_path
from sandwright.policy.declaration import Support

SCHEMA_FILE = ".sandbox/policy.schema.json"
"""The JSON Schema for editors, relative to the project. Its directory is protected."""

_WIDTH = 100
_SHELL_PATH = re.compile(r"(?!-)[A-Za-z0-9_./+@-]*")
_PLAIN = re.compile(r"[$~A-Za-z/][$A-Za-z0-9_./+~-]*")


@dataclass(frozen=True)
class Choice:
    """The method for which a policy is proposed, the reason for it, and its declared features.

    `agent` is the coding agent that works in the project, if any. `review`: commands change a copy.
    """

    method: str
    why: str
    declaration: Mapping[str, Support]
    agent: str = ""
    review: bool = False

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
        _cache_section(project),
        _network_section(project, choice),
        _seatbelt(project, choice),
        _resources_section(choice),
        _accepted_gaps_section(project, choice),
    ]
    return "\n".join("".join(f"{line}\n" for line in section) for section in map(list, sections) if section)


def _header_lines(project: ProjectFacts) -> Iterator[str]:
    found = ", ".join(each.name for each in project.languages) or "no language that it knows"
    yield f"# yaml-language-server: $schema={SCHEMA_FILE}"
    yield from _comment(
        f"What commands may do in this project. `sandwright init` found {found}, and proposed this policy; "
        "edit it as you like. `sandwright explain write PATH` shows the rule for a path, and "
        "`sandwright verify` proves that the sandbox holds."
    )
    yield "schema: 1"


def _method(choice: Choice) -> Iterator[str]:
    yield from _comment(f"The sandboxing method. {choice.why}")
    yield f"method: {choice.method}"
    yield ""
    yield from _comment(
        "Commands can read the host, except for places of secrets (~/.ssh, ~/.aws, browsers, …). With "
        "[strict] they can read only the project and the files that programs need to start."
    )
    if choice.agent:
        yield from _comment(
            f"agent-{choice.agent} adds a directory for the state of {choice.agent}, separate from the one "
            "that it uses on the host, the hosts of its model, and the variable with its key. Add the preset "
            "own-home to give it a separate home directory, and key-anthropic, key-gemini or key-openai to "
            "keep an API key outside the sandbox."
        )
    yield f"extends: [{f'agent-{choice.agent}' if choice.agent else 'default'}]"
    if choice.agent or choice.review:
        yield ""
        yield from _comment(
            "With this line, commands change a copy of the project. `sandwright changes` lists the changes "
            "(for programs inside: `sandwright-changes`), and `sandwright apply` takes them."
        )
        yield "workspace: review" if choice.review else "# workspace: review"


def _filesystem_section(project: ProjectFacts, choice: Choice) -> Iterator[str]:
    yield "filesystem:"
    git = _GIT[project.git]
    yield from _comment(
        "The project, and a temporary directory of each run. Files that programs on the host run by "
        f"themselves (settings of editors, shells and agents) stay read-only.{git}",
        2,
    )
    yield "  write:"
    yield from ['    - "..."  # the grants of the preset'] if choice.agent else []
    yield "    - $PROJECT"
    if project.git == "worktree":
        yield from _comment(
            "This is a linked worktree: commits are written to its repository, which lies elsewhere. Approve "
            "that once with `sandwright trust`, or remove this line and commit outside the sandbox.",
            2,
        )
        yield "  git: [worktree]"
    if project.pipelines:
        systems = ", ".join(dict.fromkeys(name for _, name in project.pipelines))
        yield from _comment(f"{systems} runs these files with its secrets. Change them outside.", 2)
        yield "  readonly:"
        yield from _items(path for path, _ in project.pipelines)
    if project.secrets:
        yield from _comment("Their names suggest secrets. Remove those that contain none.", 2)
        yield "  deny:"
        yield from _items(project.secrets)
    if project.shared:
        yield from _comment(
            "These names suggest secrets, too, but Git tracks the files, or they are links. Everybody with "
            "the repository has them, and hiding them can break `git commit` and tools that read them. "
            "To hide a path, remove its `#`.",
            2,
        )
        yield from () if project.secrets else ("  # deny:",)
        yield from (f"  # {item.strip()}" for item in _items(project.shared))
    if project.strange:
        yield from _comment(
            f"{len(project.strange)} more files look like secrets. A policy cannot spell their names "
            "(`sandwright init` lists them), so they can be read.",
            2,
        )


_GIT = {
    "": "",
    "repository": " In .git, hooks and config stay read-only.",
    "worktree": " In the repository, hooks and config stay read-only.",
    "elsewhere": " The repository lies outside the project and stays read-only: commit outside the sandbox.",
}


def _cache_section(project: ProjectFacts) -> Iterator[str]:
    managers = (name for each in project.installations for name in each.manager.caches)
    caches = list(dict.fromkeys((*managers, *project.tool_caches)))
    if caches:
        yield from _comment(
            "The home directory is read-only. These tools get caches that only sandboxes of this project "
            "use, kept between runs."
        )
        yield f"cache: [{', '.join(caches)}]"


def _network_section(project: ProjectFacts, choice: Choice) -> Iterator[str]:
    yield "network:"
    hosts = list(dict.fromkeys(host for each in project.installations for host in each.manager.registries))
    if choice.agent:
        yield from _comment(
            f"{choice.agent} reaches its model through the preset. To allow more hosts"
            f"{', such as those of dependencies' if hosts else ''}:",
            2,
        )
        yield f'  # allow: ["...", {", ".join(hosts) or "HOST"}]'
    elif hosts:
        yield "  # None. To install dependencies:"
        yield from (f"  #   {command}" for command in install_commands(project))
    else:
        yield "  # None. `mode: proxy` with `allow: [HOST, …]` allows the listed hosts."
    yield "  mode: proxy" if choice.agent else "  mode: none"
    if project.containers:
        yield from _comment(
            f"{_example_paths(project.containers)}: a program that reaches the socket of a container engine "
            "controls the host, so these sockets stay closed. Build images outside the sandbox.",
            2,
        )


MOST_INSTALLATIONS = 8
"""Commands that a proposal lists; a monorepo can have hundreds of packages."""


def install_commands(project: ProjectFacts) -> Iterator[str]:
    """Commands of a shell in the project's directory that download dependencies, each with its network.

    Packages whose names a shell would interpret are left out.
    """
    fitting = [each for each in project.installations if _SHELL_PATH.fullmatch(each.directory)]
    for each in fitting[:MOST_INSTALLATIONS]:
        where = f"-C {each.directory} " if each.directory else ""
        install = each.manager.install
        words = f"sh -c '{install}'" if "&&" in install else install
        hosts = ",".join(each.manager.registries)
        yield f"sandwright {where}run -s network.mode=proxy -s 'network.allow=[{hosts}]' -- {words}"
    if len(fitting) > MOST_INSTALLATIONS:
        yield f"… and {len(fitting) - MOST_INSTALLATIONS} more"


def _seatbelt(project: ProjectFacts, choice: Choice) -> Iterator[str]:
    fragments = list(dict.fromkeys(name for each in project.languages for name in each.fragments))
    if fragments and choice.declaration["macos"].level == "exact":
        needing = ", ".join(each.name for each in project.languages if each.fragments)
        yield from _comment(f"{needing}: access to macOS beyond the preset's.")
        yield f'macos: ["...", {", ".join(fragments)}]'


def _resources_section(choice: Choice) -> Iterator[str]:
    if choice.can("resources.time"):
        yield "resources:"
        yield from _comment("A run that hangs ends.", 2)
        yield "  time: 8h"


def _accepted_gaps_section(project: ProjectFacts, choice: Choice) -> Iterator[str]:
    lacking = {name: why for name, why in _gap_reasons(project).items() if not choice.can(name)}
    if not lacking:
        return
    yield from _comment(
        f"{choice.method} cannot enforce these features. Without its entry here, each is an error: remove "
        "the entries with which you disagree."
    )
    yield "accept_gaps:"
    for feature, reason in lacking.items():
        yield f"  - feature: {feature}"
        yield f"    method: {choice.method}"
        yield f"    reason: {reason}"


def _gap_reasons(project: ProjectFacts) -> Mapping[str, str]:
    """Features of a proposal that some method lacks, each with a reason to accept that.

    `filesystem.deny-inside` is absent: only people accept that secrets of the project can be read.
    """
    changed = "changes are reviewed before the host runs them"
    restricts = bool(project.secrets or project.pipelines)
    return {
        "filesystem.protect": changed,
        "filesystem.attributes": "file names are no secret, and there are no other users to open files to",
        "process.kernel": "no other processes here have secrets among their arguments",
        **({"filesystem.readonly": changed} if project.pipelines else {}),
        **(
            {"filesystem.absent": "a checkout without these files has nothing in them to hide"}
            if restricts
            else {}
        ),
    }


def _items(paths: Iterator[str] | Sequence[str]) -> Iterator[str]:
    yield from (f"    - {_scalar(project_path(path))}" for path in paths)


def _scalar(text: str) -> str:
    """A YAML scalar: plain if the text has no special characters, otherwise in double quotes."""
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
