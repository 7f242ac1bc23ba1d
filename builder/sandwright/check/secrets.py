"""Recognises secrets: files in which programs keep them, and tokens by their form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

LARGEST = 1 << 20
"""Bytes of a file that are searched: keys and tokens are in small files, or near the beginning of others."""

FILES: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (rb"(?:.*/)?\.git(?:/.*)?", "a repository of git, with its history"),
        (rb"(?:.*/)?\.ssh/id_[^/]*(?<!\.pub)", "a private key of ssh"),
        (rb"etc/ssh/ssh_host_[^/]*_key", "a host key of sshd, the same in every container"),
        (rb"(?:.*/)?\.netrc", "logins of curl and git"),
        (rb"(?:.*/)?\.git-credentials", "logins of git"),
        (rb"(?:.*/)?\.pypirc", "logins of twine"),
        (rb"(?:.*/)?\.docker/config\.json", "logins of Docker"),
        (rb"(?:.*/)?\.dockercfg", "logins of Docker"),
        (rb"(?:.*/)?containers/auth\.json", "logins of Podman"),
        (rb"(?:.*/)?\.aws/credentials", "keys of AWS"),
        (
            rb"(?:.*/)?\.config/gcloud/(?:credentials\.db|application_default_credentials\.json)",
            "keys of gcloud",
        ),
        (rb"(?:.*/)?\.kube/config", "keys of Kubernetes"),
        (rb"(?:.*/)?\.gnupg/private-keys-v1\.d/.+", "private keys of GnuPG"),
        (rb"(?:.*/)?\.(?:bash|zsh|python|mysql|psql)_history", "the history of a shell or client"),
        (rb"(?:.*/)?\.env(?:\.(?:local|production|development))?", "variables of an application"),
    )
)
"""Patterns of whole paths, with the kind of secret that programs keep there."""

TOKENS: tuple[tuple[tuple[bytes, ...], re.Pattern[bytes], str], ...] = tuple(
    (marks, re.compile(pattern), what)
    for marks, pattern, what in (
        (
            (b"PRIVATE KEY",),
            rb"-----BEGIN (?:[A-Z0-9]{2,10} )?PRIVATE KEY(?: BLOCK)?-----\r?\n[A-Za-z0-9+/=:, \r\n-]{64}",
            "a private key",
        ),
        ((b"AKIA", b"ASIA"), rb"(?<![A-Za-z0-9])A[KS]IA[0-9A-Z]{16}(?![A-Za-z0-9])", "an access key of AWS"),
        (
            (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"),
            rb"(?<![A-Za-z0-9_])gh[pousr]_[A-Za-z0-9]{36,}",
            "a token of GitHub",
        ),
        ((b"github_pat_",), rb"(?<![A-Za-z0-9_])github_pat_[A-Za-z0-9_]{50,}", "a token of GitHub"),
        ((b"glpat-",), rb"(?<![A-Za-z0-9_-])glpat-[A-Za-z0-9_-]{20,}", "a token of GitLab"),
        ((b"npm_",), rb"(?<![A-Za-z0-9_])npm_[A-Za-z0-9]{36}", "a token of npm"),
        ((b"pypi-",), rb"(?<![A-Za-z0-9_-])pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}", "a token of PyPI"),
        ((b"xox",), rb"(?<![A-Za-z0-9_-])xox[abprs]-[0-9]{8,}-[A-Za-z0-9-]{10,}", "a token of Slack"),
        ((b"sk-ant-",), rb"(?<![A-Za-z0-9_-])sk-ant-[a-z0-9]{2,8}-[A-Za-z0-9_-]{32,}", "a key of Anthropic"),
        ((b"AIza",), rb"(?<![A-Za-z0-9_-])AIza[0-9A-Za-z_-]{35}(?![A-Za-z0-9_-])", "a key of Google"),
        ((b"_authToken",), rb"(?m)^[ \t]*//[^\s=]+/:_authToken[ \t]*=[ \t]*(?!\$)\S{8,}", "a token of npm"),
    )
)
"""Bytes that every match contains, the pattern, and the kind of secret."""


def _by_first_byte(marks: Iterable[bytes]) -> Mapping[int, re.Pattern[bytes]]:
    """Patterns for marks, by their first byte: re searches fast for a certain first byte."""
    grouped: dict[int, list[bytes]] = {}
    for mark in marks:
        grouped.setdefault(mark[0], []).append(re.escape(mark))
    return {first: re.compile(b"|".join(same)) for first, same in grouped.items()}


_MARKS = _by_first_byte(mark for marks, _, _ in TOKENS for mark in marks)
_ANY_FILE = re.compile(b"|".join(b"(?:%b)" % pattern.pattern for pattern, _ in FILES))

_NAMES = re.compile(
    r"(?i)(?:^|[^a-z0-9])(?:pg)?(?:pass|pwd|password|passwd|passphrase|secret|secret_?key|token|api[-_]?key|"
    r"private[-_]?key|credentials?)(?:[^a-z0-9]|$)"
)
_NO_VALUE = re.compile(r"|\$.*|/.*|\*+|true|false|yes|no|0|1|none|null", re.IGNORECASE)
_LOGIN = re.compile(r"://[^\s/:@$]*:(?!\$)[^\s/@]+@")
_SETTING = re.compile(r"(?<!\S)([A-Za-z_][A-Za-z0-9_]*)=(\"[^\"]*\"|'[^']*'|\S*)")


def secret_file(path: bytes) -> str:
    """The secret that programs keep at a path (relative, normalised); empty for none."""
    if not _ANY_FILE.fullmatch(path):
        return ""
    return next((what for pattern, what in FILES if pattern.fullmatch(path)), "")


def secrets_in(content: bytes) -> Iterator[str]:
    """The kinds of secrets in a text or file, each once, never the secrets themselves."""
    reported = set()
    begun = {first for first, mark in _MARKS.items() if mark.search(content)}
    for marks, pattern, what in TOKENS if begun else ():
        marked = any(mark[0] in begun and mark in content for mark in marks)
        if what not in reported and marked and pattern.search(content):
            reported.add(what)
            yield what


def secret_variable(name: str, value: str) -> str:
    """The reason why a variable counts as a secret; empty when it doesn't."""
    for what in secrets_in(value.encode("utf-8", "surrogatepass")):
        return f"its value is {what}"
    if _LOGIN.search(value):
        return "its value is an address with a password"
    if _NAMES.search(name) and not _NO_VALUE.fullmatch(value):
        return "its name says that it is one"
    return ""


def secrets_in_command(text: str) -> Iterator[str]:
    """The secrets in a line of a build's history: tokens, and variables set to one."""
    yield from secrets_in(text.encode("utf-8", "surrogatepass"))
    if _LOGIN.search(text):
        yield "an address with a password"
    for name, value in _SETTING.findall(text):
        if secret_variable(name, value.strip("\"'")):
            yield f"a value of {name}"
