"""The profiles of `git` and `gh`: a table of allowed calls for each, and the syntax of its lines.

A line is a sub-command, its operands and its options. `<kind>` is an operand, `[<kind>]` one that may be left
out, `...` behind the last that it may be repeated. `--state/-s:word` is an option with a value of that kind;
without a kind it is a flag. `!` after an option means that it, or another one with `!` and the same number,
must be given; `~` means that it is accepted, but not passed on. Options outside the table are refused;
`NEVER` has the reasons for the common ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import cast, get_args

from sandwright.bridge.arg_types import Kind
from sandwright.bridge.grammar import CommandForm, ProgramProfile, ShimOption

_OPTION = re.compile(
    r"(?P<names>--[a-z0-9-]+(?:/-[A-Za-z])?)(?::(?P<kind>[a-z]+))?(?:!(?P<group>[0-9]))?(?P<not_passed>~)?"
)

GIT = """
push [<remote>] [<refspec>...] --atomic --delete/-d --dry-run/-n --follow-tags --force/-f --force-with-lease \
 --no-progress --no-verify --porcelain --progress --quiet/-q --set-upstream/-u~ --tags --verbose/-v
fetch [<remote>] [<refspec>...] --no-progress --no-tags --progress --quiet/-q --tags/-t --verbose/-v
ls-remote [<remote>] [<ref>...] --exit-code --heads --quiet/-q --refs --symref --tags/-t
"""
"""git's sub-commands that connect to a remote, and so need the secret. Git inside the sandbox does everything
else. --set-upstream is not passed on: it would change the configuration of a temporary repository, and git
would report a change that the sandbox never sees.
"""

_LOCAL = (
    "add", "am", "apply", "archive", "bisect", "blame", "branch", "checkout", "cherry-pick", "clean",
    "commit", "config", "describe", "diff", "gc", "grep", "init", "log", "merge", "mv", "rebase", "reflog",
    "remote", "reset", "restore", "revert", "rm", "show", "stash", "status", "switch", "tag", "worktree",
)  # fmt: skip

GIT_NEVER: Mapping[str, str] = dict.fromkeys(_LOCAL, "it needs no secret: use the sandbox's own git") | {
    "clone": "it writes where no repository is known yet; init, remote add and fetch do the same",
    "pull": "its merge is the sandbox's own git's; fetch through the bridge, and merge there",
    "submodule": "it runs commands that .gitmodules names",
    "credential": "it prints the secret",
    "daemon": "it serves files",
    "upload-pack": "it serves files",
    "receive-pack": "it runs hooks",
    "send-email": "it runs commands that the configuration names",
    "svn": "it runs Perl with the repository's configuration",
}  # fmt: skip

_PR_TEXT = "--title/-t:text --body/-b:text --body-file/-F:file"
_LISTED = "--limit/-L:number --json:fields --repo/-R:repo"

GH = f"""
auth status --active/-a
pr list {_LISTED} --app:login --assignee/-a:login --author/-A:login --base/-B:ref --draft/-d --head/-H:ref \
 --label/-l:search --search/-S:search --state/-s:word
pr status --conflict-status/-c --json:fields --repo/-R:repo
pr view <item> --comments/-c --json:fields --repo/-R:repo
pr diff <item> --name-only --patch --color:word --repo/-R:repo
pr checks <item> --required --fail-fast --json:fields --repo/-R:repo
pr create --title/-t:text!1 --body/-b:text!2 --body-file/-F:file!2 --head/-H:ref!3 --base/-B:ref --draft/-d \
 --assignee/-a:login --label/-l:text --milestone/-m:text --reviewer/-r:login --no-maintainer-edit --dry-run \
 --repo/-R:repo
pr edit <item> {_PR_TEXT} --base/-B:ref --add-assignee:login --add-label:text --add-reviewer:login \
 --remove-assignee:login --remove-label:text --remove-reviewer:login --milestone/-m:text --repo/-R:repo
pr comment <item> --body/-b:text!1 --body-file/-F:file!1 --repo/-R:repo
pr review <item> --approve/-a!1 --comment/-c!1 --request-changes/-r!1 --body/-b:text --body-file/-F:file \
 --repo/-R:repo
pr merge <item> --merge/-m!1 --squash/-s!1 --rebase/-r!1 --auto!1 --disable-auto!1 --subject/-t:text \
 --body/-b:text --body-file/-F:file --match-head-commit:ref --repo/-R:repo
pr close <item> --comment/-c:text --repo/-R:repo
pr reopen <item> --comment/-c:text --repo/-R:repo
pr ready <item> --undo --repo/-R:repo
issue list {_LISTED} --app:login --assignee/-a:login --author/-A:login --label/-l:search --mention:login \
 --milestone/-m:search --search/-S:search --state/-s:word
issue status --json:fields --repo/-R:repo
issue view <number> --comments/-c --json:fields --repo/-R:repo
issue create --title/-t:text!1 --body/-b:text!2 --body-file/-F:file!2 --assignee/-a:login --label/-l:text \
 --milestone/-m:text --repo/-R:repo
issue edit <number> {_PR_TEXT} --add-assignee:login --add-label:text --remove-assignee:login \
 --remove-label:text --milestone/-m:text --repo/-R:repo
issue comment <number> --body/-b:text!1 --body-file/-F:file!1 --repo/-R:repo
issue close <number> --comment/-c:text --reason/-r:text --repo/-R:repo
issue reopen <number> --comment/-c:text --repo/-R:repo
run list {_LISTED} --branch/-b:ref --commit/-c:ref --event/-e:word --status/-s:word --user/-u:login \
 --workflow/-w:text
run view <number> --attempt/-a:number --exit-status --job/-j:number --json:fields --log --log-failed \
 --verbose/-v --repo/-R:repo
run rerun <number> --failed --repo/-R:repo
run cancel <number> --repo/-R:repo
workflow list --all/-a {_LISTED}
release list --exclude-drafts --exclude-pre-releases {_LISTED}
release view [<tag>] --json:fields --repo/-R:repo
repo view [<repo>] --branch/-b:ref --json:fields
label list {_LISTED} --search/-S:search
"""
"""gh's sub-commands that only use the service: no local repository, no program, and no file except for the
text of a body."""

GH_NEVER: Mapping[str, str] = {
    "alias": "an alias may run a shell command",
    "api": "it takes any request, and sends files",
    "attestation": "it reads and writes files",
    "browse": "it starts a browser",
    "codespace": "it opens connections and runs ssh",
    "co": "it runs git in the repository, with its hooks",
    "config": "it changes what gh runs as editor, pager and browser",
    "copilot": "it runs another program",
    "extension": "an extension is a program",
    "gist": "it reads and writes files",
    "gpg-key": "it changes the account",
    "auth token": "it prints the token",
    "auth login": "it changes the account",
    "auth setup-git": "it changes what git runs",
    "pr checkout": "it runs git in the repository, with its hooks",
    "release create": "it sends files",
    "release download": "it writes files",
    "release upload": "it sends files",
    "repo clone": "it runs git",
    "repo create": "it runs git",
    "repo fork": "it runs git",
    "repo sync": "it runs git",
    "run download": "it writes files",
    "run watch": "it waits without an end",
    "secret": "it changes what workflows may see",
    "ssh-key": "it changes the account",
    "variable": "it changes what workflows see",
}


ANY_HOSTS_PASSWORDS = ("GIT_TOKEN", "GIT_PASSWORD")
GIT_PASSWORDS = (*ANY_HOSTS_PASSWORDS, "GH_TOKEN", "GITHUB_TOKEN")
"""GitHub's tokens go to GitHub and to addresses of the policy, and not to other remotes of a project."""

GIT_USERNAME = "GIT_USERNAME"
GIT_SECRETS = frozenset({*GIT_PASSWORDS, GIT_USERNAME})
"""The variables that a policy may use for git's secrets; git itself knows none of them."""


@cache
def profile_of(program: str) -> ProgramProfile | None:
    """The profile of a program, by its name; None when there is none."""
    match program:
        case "git":
            return ProgramProfile("git", _forms(GIT), GIT_SECRETS, GIT_NEVER)
        case "gh":
            return ProgramProfile("gh", _forms(GH), frozenset({"GH_TOKEN", "GITHUB_TOKEN"}), GH_NEVER)
        case _:
            return None


def _forms(table: str) -> tuple[CommandForm, ...]:
    return tuple(_parse_form(line) for line in table.splitlines() if line.strip())


def _parse_form(line: str) -> CommandForm:
    words, operands, optional, options = [], [], 0, {}
    required: dict[str, set[str]] = {}
    more = "..." in line
    for part in line.split():
        if part.startswith("--"):
            found = _OPTION.fullmatch(part)
            assert found, part
            names = found["names"].split("/")
            option = ShimOption(
                names[0], _argument_kind(found["kind"] or "flag"), passed=not found["not_passed"]
            )
            options.update(dict.fromkeys(names, option))
            if found["group"]:
                required.setdefault(found["group"], set()).add(option.name)
        elif part[0] in "<[":
            operands.append(_argument_kind(part.strip("<>[].")))
            optional += part.startswith("[")
        else:
            words.append(part)
    groups = tuple(frozenset(group) for group in required.values())
    return CommandForm(tuple(words), options, tuple(operands), optional, more, groups)


def _argument_kind(name: str) -> Kind:
    assert name in get_args(Kind), name
    return cast("Kind", name)
