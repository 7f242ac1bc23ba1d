"""Runs the programs of a minimal root in it, and compares with the same runs in the image's full root."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandwright import process
from sandwright.errors import BuildError, CommandFailed
from sandwright.process import Result
from sandwright.rootfs.bundles import convert
from sandwright.rootfs.bundles.convert import PLAIN, BundleOptions
from sandwright.rootfs.bundles.identity import read_accounts, resolve_user
from sandwright.rootfs.images.source import Image
from sandwright.rootfs.minimal.minimal import MinimalBundle, MinimalOptions, environment_of
from sandwright.rootfs.minimal.trace import TracedCommand, readonly_devices, sandbox
from sandwright.rootfs.securejoin import Root

_TIMEOUT = 60.0
_STARTED_BY = b"bwrap: "
"""The prefix of bubblewrap's messages: a run with one did not reach the program."""


def try_minimal(
    image: Image,
    made: MinimalBundle,
    options: MinimalOptions,
    checks: Sequence[tuple[str, ...]],
    settings: BundleOptions = PLAIN,
) -> Iterator[str]:
    """Run `PROGRAM --version` for each program, traced command lines, and `checks`; yield a line for each.

    `checks` and traced command lines must end with status 0. `--version` must end as in the full root, which
    some programs refuse. Raise BuildError for another end, ToolMissing without bubblewrap.
    """
    trial = _Trial.of(image, made, settings)
    for program in made.selection.programs:
        yield trial.compare((program.decode(errors="surrogateescape"), "--version"))
    for argv in (*options.trace, *checks):
        yield trial.must_pass(argv)


@dataclass(frozen=True)
class _Trial:
    full: Path
    minimal: Path
    environment: dict[str, str]
    user: tuple[int, int] | None

    @classmethod
    def of(cls, image: Image, made: MinimalBundle, settings: BundleOptions) -> _Trial:
        section = convert.image_section(image.config)
        with Root(made.full_path) as root:
            identity = resolve_user(convert.user(section), read_accounts(root))
        return cls(
            made.full_path,
            made.bundle.rootfs.path,
            environment_of(section, settings, identity),
            (identity.uid, identity.gid) if identity.uid else None,
        )

    def compare(self, argv: tuple[str, ...]) -> str:
        """Run a command line in both roots; the ends must be the same."""
        command = " ".join(argv)
        expected = self._run_in_root(self.full, argv)
        if expected is None:
            return f"not tried: {command} does not end in the full image; name another with --check"
        if _STARTED_BY in expected.stderr.encode():
            raise BuildError(f"cannot start {command} here, even in the full image: {_output_line(expected)}")
        found = self._run_in_root(self.minimal, argv)
        if found is None or found.status != expected.status or self._differs_by_root(found, expected, argv):
            ended = "did not end" if found is None else f"ended with {found.status}: {_output_line(found)}"
            raise BuildError(
                f"in the minimal root, {command} {ended}; in the full image, it ended with {expected.status}:"
                f" {_output_line(expected)}; --trace '{command}' keeps the files that it opens"
            )
        return f"tried: {command}: {_output_line(found)}"

    def must_pass(self, argv: tuple[str, ...]) -> str:
        """Run a command line in the minimal root; it must end with status 0."""
        command = " ".join(argv)
        found = self._run_in_root(self.minimal, argv)
        if found is None or found.status:
            ended = "did not end" if found is None else f"ended with {found.status}: {_output_line(found)}"
            raise BuildError(f"in the minimal root, {command} {ended}; --trace and --keep add files")
        return f"tried: {command}: {_output_line(found)}"

    def _differs_by_root(self, found: Result, expected: Result, argv: tuple[str, ...]) -> bool:
        """Whether another output is to blame on the root: some programs print times or addresses."""
        if found.stdout == expected.stdout:
            return False
        again = self._run_in_root(self.full, argv)
        return again is not None and again.stdout == expected.stdout

    def _run_in_root(self, rootfs: Path, argv: tuple[str, ...]) -> Result | None:
        """The end of a command line in a root; None when it does not end."""
        # In `/`: the user namespace maps one user, so that the home of another is closed even to root.
        command = TracedCommand(argv, self.environment, "/", self.user)
        bwrap = process.which("bwrap", hint="minimal roots are tried in bubblewrap")
        try:
            with sandbox(rootfs, command) as words:
                return process.run(
                    *(*readonly_devices(), bwrap, *words.argv),
                    timeout=_TIMEOUT,
                    check=False,
                    pass_fds=words.pass_fds,
                    kill_descendants=True,
                )
        except CommandFailed:
            return None


def _output_line(result: Result) -> str:
    """The first line of the output, or the last of the errors."""
    lines = (
        result.stdout.decode(errors="replace").strip().splitlines()[:1]
        or result.stderr.strip().splitlines()[-1:]
    )
    return lines[0] if lines else "no output"
