"""The commands below the heading "running sessions"."""

from __future__ import annotations

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.everyday import METHOD, TIME
from sandwright.cli.commands.options import JSON, POLICY, PRESET, SET, TRUST

GROUP = "running sessions"

COMMANDS = (
    Command(
        "exec",
        GROUP,
        "Run a further command in a running session, with the same restrictions.",
        positional=(Option("session", "SESSION", "name or ID of the session", required=True),),
        options=(
            Option(
                "workdir",
                "DIR",
                "directory to start in (default: the current one in the project, else the session's)",
                short="w",
            ),
        ),
        details="Exits with the command's status; 125 if nothing was run. The command has the session's"
        " environment, and ends with the session. Methods: bwrap, oci, podman, docker, landlock and user.",
        takes_command=True,
        example="sandwright exec web -- ps aux",
    ),
    Command(
        "shell",
        GROUP,
        "Start your shell in a sandbox, or in a running session.",
        positional=(Option("session", "SESSION", "name or ID of a session"),),
        options=(POLICY, METHOD, PRESET, SET, TIME, TRUST),
        details="The prompt shows that the shell is inside. The options choose the sandbox as for `run`; with"
        " a session they are errors.",
        example="sandwright shell web",
    ),
    Command(
        "attach",
        GROUP,
        "Join the terminal of a detached run.",
        positional=(Option("session", "SESSION", "name or ID of the run", required=True),),
        options=(
            Option(
                "detach-keys",
                "KEYS",
                "keys that detach from the run (default: ctrl-p,ctrl-q; an empty word for none)",
            ),
        ),
        details="Exits with the command's status; 0 if you detach before; 125 if the terminal cannot be"
        " joined. Several clients can be attached and see the same output; the window has the size of the"
        " client that attached or changed it last. If the run has no terminal, it shows only output.",
        example="sandwright attach web",
    ),
    Command(
        "status",
        GROUP,
        "List this user's running sessions and what each enforces.",
        options=(JSON,),
        example="sandwright status --json",
    ),
    Command(
        "logs",
        GROUP,
        "Print the standard output and error of a detached run, or its denials.",
        positional=(Option("session", "SESSION", "name or ID of the run (default: the newest)"),),
        options=(
            Option("follow", "", "go on until the run has ended", short="f"),
            Option("denials", "", "print denials instead, each kind when it first happens"),
        ),
        details="Logs are kept for a week after the end of a run.",
        example="sandwright logs --denials --follow web",
    ),
    Command(
        "stop",
        GROUP,
        "End a running session: SIGTERM, then SIGKILL.",
        positional=(Option("session", "SESSION", "name or ID of the session", required=True),),
        options=(Option("time", "TIME", "time before SIGKILL (default: 10s)", short="t"),),
        example="sandwright stop web",
    ),
    Command(
        "cleanup",
        GROUP,
        "Remove leftovers of killed sessions.",
        options=(
            Option(
                "caches",
                "",
                "also remove the caches and home directories of projects (`cache`, `filesystem.home`)",
            ),
            Option("dry-run", "", "only list what would be removed"),
            JSON,
        ),
        details="Running sessions and other users' files are not touched.",
        example="sandwright cleanup --dry-run",
    ),
)
