"""The request of one run: its command, policy and options, which name its entry in the render cache."""

from __future__ import annotations

import os
import sys
from json import dumps

from sandwright.environment import TELEMETRY
from sandwright.policy.agents import AGENTS
from sandwright.session.recording import Recording
from sandwright.user_dirs import is_there

VERSION = "1"
"""The version of the render cache's entries, and of the questions in them."""
INTERPRETER = "sandwright-interpreter"
"""The script that the native command starts Python with."""


class RunRequest:
    """The command and options of one run, before a policy is read.

    `policy` is the project's file. It may be missing if it is not `named`, or if there are `presets`. These,
    `method` and `settings` (FIELD=VALUE) apply to this run only, and so does `time`, the limit in seconds or
    with a unit.

    `cidfile` receives the engine's ID of the container, or the session's without an engine. `telemetry` is
    the file to which a line about the session is appended (absent: the value of SANDWRIGHT_TELEMETRY).
    `denials` receives the denials, which `quiet` keeps off standard error; `denials_log` is a second file for
    them, empty for none. `audit` is the audit log (`session.audit`), which the sandbox cannot access.
    `recording` selects the recording of the run, None for none.

    `explained` also reports denied paths. `rendered` requires that the project contains the policy's
    artifacts. `build` first builds missing images. `detach` runs in the background, under `name` if it is
    set, and with `session` as the ID; with `tty`, the command has a terminal. `started` is the descriptor of
    a pipe that receives a byte when the command was executed, -1 for none.

    `workspace` is the name of the review workspace, empty for none. `session.review` sets three further
    fields: `copies` is the copy for each project, `creatable` are protected names that do not exist in the
    project and can be created in the copy, and `plan` is the digest of the inputs of that decision.
    """

    __slots__ = (
        *(
            "argv",
            "audit",
            "cidfile",
            "cwd",
            "denials",
            "denials_log",
            "method",
            "named",
            "policy",
            "presets",
            "settings",
            "telemetry",
        ),
        *(
            "build",
            "detach",
            "explained",
            "name",
            "quiet",
            "recording",
            "rendered",
            "session",
            "started",
            "tty",
        ),
        *("copies", "creatable", "plan", "trusted", "workspace"),
    )

    def __init__(
        self,
        argv: list[str],
        *,
        policy: str = "sandbox.yaml",
        cwd: str = "",
        named: bool = True,
        method: str = "",
        settings: list[str] | None = None,
        presets: list[str] | None = None,
        time: str = "",
        cidfile: str = "",
        telemetry: str = "",
        audit: str = "",
        denials: str = "",
        quiet: bool = False,
        explained: bool = False,
        trusted: bool = False,
        rendered: bool = False,
        build: bool = False,
        detach: bool = False,
        tty: bool = False,
        name: str = "",
        workspace: str = "",
        recording: Recording | None = None,
    ) -> None:
        """Paths are relative to `cwd`, by default the current directory."""
        self.argv = argv
        self.cwd = cwd or os.getcwd()
        self.policy = _plain_path(os.path.join(self.cwd, policy))
        self.named = named
        self.method = method
        self.presets = presets or []
        seconds = "s" * (time.isascii() and time.isdigit())
        self.settings = [*(settings or []), *([f"resources.time={time}{seconds}"] if time else [])]
        self.cidfile = cidfile and _plain_path(os.path.join(self.cwd, cidfile))
        telemetry = telemetry or os.environ.get(TELEMETRY.name, "")
        self.telemetry = telemetry and self._placed(telemetry)
        self.denials = denials and self._placed(denials)
        self.denials_log = ""
        self.quiet = quiet
        self.explained = explained
        self.audit = audit and self._placed(audit)
        if audit:
            self.settings.append(f"filesystem.deny={dumps([self.audit])}")
        self.trusted = trusted
        self.rendered = rendered
        self.recording = recording
        self.build = build
        self.detach = detach
        self.tty = tty
        self.name = name
        self.workspace = workspace
        self.copies: dict[str, str] = {}
        self.creatable: tuple[str, ...] = ()
        self.plan = ""
        self.session = ""
        self.started = -1

    def _placed(self, path: str) -> str:
        """A path whose directory has no links."""
        directory, name = os.path.split(os.path.join(self.cwd, path))
        return os.path.join(os.path.realpath(directory), name)

    def has_policy(self) -> bool:
        """Whether the policy comes from a file: one that was named, or that exists."""
        return (self.named and not self.presets) or is_there(self.policy)

    def shown(self) -> str:
        """The policy's file, shorter where it is below the current directory."""
        near = os.path.relpath(self.policy, self.cwd)
        return self.policy if near.startswith("..") else near

    def identity(self) -> list[str]:
        """All inputs of the rendering, except files and the host.

        The native front names the entry of a run without options in the same way (front/source/start.c).
        """
        environment = [
            name if value is None else f"{name}={value}" for name, value in map(_variable_entry, _CHOOSING)
        ]
        parts = [f"policy {self.policy}"] if self.named else []
        parts += [f"preset {name}" for name in self.presets] + [f"set {each}" for each in self.settings]
        parts += [f"method {self.method}"] if self.method else []
        parts += ["rendered"] if self.rendered else []
        parts += [f"agent {self.argv[0]}"] if self.argv and self.argv[0] in AGENTS else []
        parts += [f"copy {dumps(pair)} {self.plan}" for pair in self.copies.items()]
        return [VERSION, _program(), self.cwd, str(os.geteuid()), *environment, *parts]

    def plan_identity(self) -> list[str]:
        """The name of the entry with the policy's paths for a project in review (`session.review_plan`)."""
        return [*self.identity(), f"review {self.workspace}"]


_CHOOSING = ("SANDBOX_METHOD", "SANDBOX_REASON", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "HOME")


def command_folder() -> str:
    """The directory of the command that started Python, empty where Python was started otherwise."""
    folder, name = os.path.split(os.path.abspath(sys.argv[0]))
    by_command = name == INTERPRETER and sys.flags.safe_path and sys.flags.ignore_environment
    return folder if by_command else ""


def _variable_entry(name: str) -> tuple[str, str | None]:
    return name, os.environ.get(name)


def _program() -> str:
    """Identifies this copy of the program: the command's directory, or how Python was started otherwise."""
    if folder := command_folder():
        return folder
    site = sys.modules.get("site")
    user = getattr(site, "USER_SITE", None) if getattr(site, "ENABLE_USER_SITE", False) else None
    flags = f"{sys.flags.safe_path} {sys.flags.ignore_environment} {sys.pycache_prefix} {user}"
    return " ".join((__file__, sys.executable, sys.prefix, sys.base_prefix, flags, *sys.path))


def _plain_path(path: str) -> str:
    """An absolute path without `..`, and with the same target: behind a link, `..` is another directory."""
    folder, name = os.path.split(path)
    return os.path.join(
        os.path.realpath(folder) if ".." in folder.split("/") else os.path.normpath(folder), name
    )
