"""The leaves of a policy: sizes, durations, counts, names. Text in, value out, or ValueError."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass

from sandwright.policy.phrasing import quoted

UNLIMITED = "unlimited"
"""Lifts a limit that a layer below set."""

INHERITED = "..."
"""In a list of grants: everything that the layers below granted."""

_BYTES: dict[str, int] = {
    "B": 1,
    **{prefix + "iB": 1 << (10 * power) for power, prefix in enumerate("KMGT", 1)},
    **{prefix + "B": 1000**power for power, prefix in enumerate("kMGT", 1)},
}
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_SIZE = re.compile(r"([0-9]{1,999}(?:\.[0-9]{1,999})?) ?([A-Za-z]+)")  # int() reads 4,300 digits
_DURATION = re.compile("".join(f"(?:([0-9]{{1,12}}){unit})?" for unit in _SECONDS))
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PROGRAM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_IMAGE = re.compile(
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?/)?"  # a registry: no option, no `..`
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_FILES = re.compile(r"(containers-storage|dir|docker-archive|docker-daemon|oci|oci-archive|ostree|sif):.*")
"""The references that Podman takes for files (containers-transports(5)); loading an archive sets the tags
that it names. `docker:` only counts with `//`, and is an image."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

LOADERS = (
    "BASH_ENV", "DYLD_*", "ENV", "GCONV_PATH", "GIT_CONFIG_*", "GIT_EXEC_PATH", "GIT_SSH_COMMAND", "IFS",
    "JAVA_TOOL_OPTIONS", "LD_*", "NODE_OPTIONS", "NODE_PATH", "PERL5LIB", "PERL5OPT", "PROMPT_COMMAND",
    "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "RUBYLIB", "RUBYOPT",
)  # fmt: skip
"""Variables that make programs load or run something: never passed from the host, only set."""


def size(text: str) -> int:
    """Bytes of `2GiB` or `1.5GB`. A unit is required: B, KiB…TiB (powers of 1024), kB…TB (of 1000)."""
    found = _SIZE.fullmatch(text)
    if not found or found[2] not in _BYTES:
        raise ValueError(
            f"must be a number with a unit, like 2GiB or 512MiB, not {quoted(text)}{_size_hint(text)}"
        )
    whole, _, decimals = found[1].partition(".")
    parts: int = 10 ** len(decimals)
    amount, rest = divmod(int(whole + decimals) * _BYTES[found[2]], parts)
    if rest:
        raise ValueError(f"{text} is not a whole number of bytes")
    if not 1 <= amount < 1 << 63:
        raise ValueError("must be at least 1 byte and less than 8 EiB")
    return amount


def duration(text: str) -> int:
    """Seconds of `90s`, `30m`, `1h30m`, `2d`: days, hours, minutes, seconds in this order, whole numbers."""
    found = _DURATION.fullmatch(text)
    if not found or not any(found.groups()):
        raise ValueError(f"must be a time like 30m, 1h30m or 90s, not {quoted(text)}")
    seconds = sum(
        int(amount or 0) * unit for amount, unit in zip(found.groups(), _SECONDS.values(), strict=True)
    )
    if not 1 <= seconds <= 366 * 86400:
        raise ValueError("must be between 1s and 366d")
    return seconds


def cpus(amount: float) -> float:
    """A number of processors: more than 0, in thousandths, the unit of engines and Kubernetes."""
    if not math.isfinite(amount) or not 0.001 <= amount <= 4096:
        raise ValueError("must be between 0.001 and 4096")
    if abs(amount * 1000 - round(amount * 1000)) > 1e-6:
        raise ValueError("must be a multiple of 0.001")
    return round(amount, 3)


def count(amount: int) -> int:
    """A number of processes or open files: 1 to 2^31-1 (the range of rlimits and cgroups)."""
    if not 1 <= amount < 1 << 31:
        raise ValueError("must be between 1 and 2147483647")
    return amount


def port(number: int) -> int:
    """A TCP port."""
    if not 1 <= number <= 65535:
        raise ValueError("must be a port, 1 to 65535")
    return number


def variable(name: str) -> str:
    """The name of an environment variable (POSIX, Base Definitions 8.1: letters, digits and underscores)."""
    if not _VARIABLE.fullmatch(name):
        raise ValueError(
            f"{quoted(name)} cannot be the name of a variable: letters, digits and _, no digit first"
        )
    return name


def variable_pattern(text: str) -> str:
    """A variable's name, or the beginning of names: `LC_*`. Those that load code are refused."""
    if text == "*":
        raise ValueError("would pass every secret in the environment; list the variables")
    variable(text.removesuffix("*"))
    if not text.endswith("*") and loads_code(text):
        raise ValueError(
            f"{text} makes programs load code and never comes from the host; use environment.set"
        )
    return text


def pattern_covers(pattern: str, name: str) -> bool:
    """Whether a pattern of names covers a name, or everything that another pattern covers."""
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern


def covering_patterns(patterns: Container[str], name: str) -> Iterator[str]:
    """The patterns that cover a name, the most specific first."""
    prefixes = (f"{name[:end]}*" for end in range(len(name), -1, -1))
    return (each for each in (name, *prefixes) if each in patterns)


def loads_code(name: str) -> bool:
    """Whether a variable makes programs load or run something."""
    return any(pattern_covers(pattern, name) for pattern in LOADERS)


def secret_reference(text: str) -> str:
    """The variable that `${NAME}` refers to. The message of a refusal does not repeat the given text."""
    found = _REFERENCE.fullmatch(text)
    if not found:
        raise ValueError(
            "must name a variable of the host that holds the secret, like ${SANDBOX_GH_TOKEN}; "
            "never write the secret itself into a policy"
        )
    return found[1]


def program(name: str) -> str:
    """The name of a program that a shim stands for: no path, no leading `-` or `.`."""
    if not _PROGRAM.fullmatch(name) or len(name) > 64:
        raise ValueError(f"{quoted(name)} cannot be the name of a shim: letters, digits and ._+- only")
    return name


def image(text: str) -> str:
    """An image of ours, or a reference `[registry/]name[:tag][@sha256:…]` (OCI distribution spec)."""
    if len(text) > 512 or not _IMAGE.fullmatch(text):
        raise ValueError(f"{quoted(text)} is no reference of an image: [registry/]name[:tag][@sha256:digest]")
    if files := _FILES.fullmatch(text):
        raise ValueError(f"{quoted(text)} is no reference of an image: Podman takes {files[1]}: for files")
    return text


def reason(text: str) -> str:
    """A reason for accepting a gap: one line of text."""
    if not text.strip():
        raise ValueError("must say why")
    return line(text)


def line(text: str) -> str:
    """Text without control characters or line breaks."""
    if _CONTROL.search(text):
        raise ValueError("must be one line without control characters")
    return text


_MACH_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_@-]+)+")
_MACH_LONGEST = 127
"""BOOTSTRAP_MAX_NAME_LEN of launchd, without its NUL."""


@dataclass(frozen=True)
class MachService:
    """A Mach service by its name, or all below it with `prefix`. `register`: the sandbox offers it."""

    name: str
    register: bool
    prefix: bool


def mach_service(text: str) -> MachService | None:
    """The service of `mach-lookup:NAME`, `mach-register:NAME` or `mach-register:NAME.*`; None for others.

    Only services of the application have a prefix, and none of them is Apple's: a client of such a service
    would talk to the sandbox.
    """
    kind, colon, text_value = text.partition(":")
    if not colon or kind not in ("mach-lookup", "mach-register"):
        return None
    register, name = kind == "mach-register", text_value.removesuffix(".*")
    prefix = name != text_value
    if not _MACH_NAME.fullmatch(name) or len(name) > _MACH_LONGEST:
        raise ValueError(f"{quoted(text)}: name a Mach service of two parts at least, like com.example.agent")
    if prefix and not register:
        raise ValueError(f"{quoted(text)}: a service is looked up by its whole name, without *")
    if register and f"{name}.".lower().startswith("com.apple."):
        raise ValueError(f"{quoted(text)}: com.apple is Apple's; register services of your own")
    return MachService(name, register, prefix)


_PLAIN_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.,+-]{0,255}")


@dataclass(frozen=True)
class ShimCommand:
    """Arguments that a shim lets through. With `more`, any further ones may follow."""

    words: tuple[str, ...]
    more: bool

    def covers(self, other: ShimCommand) -> bool:
        """Whether everything that `other` lets through is let through by this one.

        A word of a policy can name a repository, an address or an option, which a `*` doesn't let through
        (docs/network.md): of further words, it covers plain ones.
        """
        if not self.more:
            return self == other
        further = other.words[len(self.words) :]
        return other.words[: len(self.words)] == self.words and all(map(is_plain_word, further))


def is_plain_word(word: str) -> bool:
    """Whether an argument is no option, path, address or repository, for any program."""
    return _PLAIN_WORD.fullmatch(word) is not None and ".." not in word


def command(text: str) -> ShimCommand:
    """The arguments of `auth status`, or of `pr *`: words between blanks; a last `*` is any further words."""
    line(text)
    words = tuple(text.split())
    if not words:
        raise ValueError("must hold at least one word")
    more = words[-1] == "*"
    words = words[:-1] if more else words
    if any("*" in word for word in words):
        raise ValueError(f"{quoted(text)}: * stands only as the last word, for any further ones")
    return ShimCommand(words, more)


def _size_hint(text: str) -> str:
    """The spelling that a common other one means."""
    other = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([kKmMgGtT])(?:i|b|ib)?", text)
    return f"; did you mean {other[1]}{other[2].upper()}iB?" if other else ""
