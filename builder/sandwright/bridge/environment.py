"""The environment of a program on the host: built from nothing, out of a few harmless variables.

It has no text from the sandbox. From the host's environment it takes only the names in KEPT, so `GIT_*`,
`GH_*`, `LD_*`, `PAGER`, `EDITOR`, `BROWSER` and the host's tokens are never in it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sandwright import process
from sandwright.errors import RenderError
from sandwright.policy import values

KEPT = (
    "LANG", "LC_ALL", "LC_CTYPE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
"""Variables for the locale, the trusted certificates, and the network proxies."""

_DANGEROUS = re.compile(
    r"PATH|HOME|SHELL|IFS|ENV|TERM|USER|PWD|TMPDIR|BROWSER|.*(?:PAGER|EDITOR|VISUAL|ASKPASS|COMMAND|PROXY)"
    r"|(?:GIT|SSH|LD|DYLD|XDG|SANDWRIGHT|BASH|PERL5|PYTHON|RUBY|NODE|JAVA|LUA|GCONV|LC|SSL|CURL|AWS_CONFIG)_?.*"
    r"|GH_(?!(?:ENTERPRISE_)?TOKEN$).*",
    re.IGNORECASE,
)


def trusted_search_path(environment: Mapping[str, str], writable: Callable[[str], bool]) -> str:
    """The host's PATH, without directories that a sandbox or another user can write.

    It also has no relative directories, and none below any project, which an earlier sandbox of that project
    may have written.
    """
    parts = environment.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":")
    return ":".join(
        part for part in parts if part.startswith("/") and not writable(part) and _unplanted(part)
    )


def _unplanted(directory: str) -> bool:
    return process.real_path(directory, process.below_project) is not None and _is_trusted_directory(
        directory
    )


def _is_trusted_directory(directory: str) -> bool:
    """Whether a directory belongs to this user or root, and is not world-writable."""
    try:
        status = Path(directory).stat()
    except OSError:
        return False
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & stat.S_IWOTH


def program_environment(environment: Mapping[str, str], *, home: Path) -> dict[str, str]:
    """The variables that every program gets. `home` is an empty directory of the bridge."""
    passed = {name: environment[name] for name in KEPT if name in environment}
    variables = {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "XDG_DATA_HOME": str(home),
        "XDG_STATE_HOME": str(home),
        "XDG_CACHE_HOME": str(home),
        "TMPDIR": str(home),
        "PATH": environment.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
        "TERM": "dumb",
        "PAGER": "cat",
        "EDITOR": "false",
        "VISUAL": "false",
        "BROWSER": "false",
    }
    return {**passed, **variables}


def gh_environment(home: Path, repository: str | None) -> dict[str, str]:
    """Variables that stop gh from asking, starting programs and reading the host's configuration.

    gh starts programs that it finds on PATH (git, a pager, a browser, an editor, extensions): there is an
    empty directory on it, and nothing else. With GH_REPO it does not ask git which repository is meant.
    """
    environment = {
        "PATH": str(home),
        "GH_CONFIG_DIR": str(home),
        "GH_PROMPT_DISABLED": "1",
        "GH_NO_UPDATE_NOTIFIER": "1",
        "GH_NO_EXTENSION_UPDATE_NOTIFIER": "1",
        "GH_SPINNER_DISABLED": "1",
        "GH_TELEMETRY": "false",
        "DO_NOT_TRACK": "1",
        "GH_PAGER": "cat",
        "GH_EDITOR": "false",
        "GH_BROWSER": "false",
        "NO_COLOR": "1",
    }
    return {**environment, **({"GH_REPO": repository} if repository else {})}


def check_secret_names(program: str, names: Iterable[str], allowed: frozenset[str] | None) -> None:
    """Raise RenderError for a variable that does more to a program than pass a secret.

    `allowed` are those that a program with a profile takes; None for other programs.
    """
    for name in names:
        where = f"credentials.shims.{program}.secrets.{name}"
        if allowed is not None and name not in allowed:
            raise RenderError(f"{where}: the secrets of {program} are {', '.join(sorted(allowed))}")
        if allowed is None and (_DANGEROUS.fullmatch(name) or values.loads_code(name)):
            raise RenderError(f"{where}: this variable steers programs, it is no secret's")
