"""The commands below the heading "every day"."""

from __future__ import annotations

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.options import FACTS, JSON, METHODS_REQUIRED, POLICY, PRESET, SET, TRUST

GROUP = "every day"

METHOD = Option("method", "METHOD", "method to use instead of the policy's", short="m", offered="method")
METHODS = Option("method", "METHOD", "method to ask (default: all)", repeatable=True, offered="method")
TIME = Option("time", "TIME", "time limit, such as 90 or 30m (same as --set resources.time=TIME)", short="t")

COMMANDS = (
    Command(
        "init",
        GROUP,
        "Propose a sandbox.yaml for a project, with a comment for each choice.",
        options=(
            Option("directory", "DIR", "directory of the project (default: the current one)"),
            Option(
                "method",
                "METHOD",
                "method of the policy (default: the first that works on this machine)",
                offered="method",
            ),
            Option(
                "agent",
                "AGENT",
                "base the policy on the preset of this coding agent",
                choices=("claude", "codex", "gemini", "aider", "opencode"),
            ),
            Option("review", "", "have runs change a copy of the project, until `apply`"),
            Option("yes", "", "write the file without asking"),
        ),
        details="Shows the policy and asks before it writes; never overwrites an existing one. With --agent,"
        " also asks about --review. Exits with 3 if it wrote nothing: the answer was no, or there was no"
        " terminal to ask on.",
        example="sandwright init --agent claude",
    ),
    Command(
        "run",
        GROUP,
        "Run a command in the sandbox of a policy; exits with the command's status.",
        options=(
            POLICY,
            METHOD,
            PRESET,
            Option(
                "gvisor-engine",
                "ENGINE",
                "run gVisor in a container of docker or podman (same as --set gvisor.engine=ENGINE)",
                retired=("outer",),
            ),
            SET,
            TIME,
            Option(
                "cidfile",
                "FILE",
                "write the container ID to this new file (the session ID for methods without an engine)",
                written=True,
            ),
            Option(
                "telemetry",
                "FILE",
                "append a line about the session to this file (default: $SANDWRIGHT_TELEMETRY)",
                written=True,
            ),
            Option(
                "denials",
                "FILE",
                "append denials to this file as they happen, as JSON lines",
                written=True,
            ),
            Option("explain-denials", "", "also print denied paths (slower; bwrap only)"),
            Option("quiet", "", "do not print denials"),
            Option(
                "audit",
                "FILE",
                "append this run to an audit log that the sandbox cannot write",
                written=True,
            ),
            Option("build", "", "first build the images that are missing, for this platform"),
            Option("detach", "", "start the command in the background, and print its name or ID", short="d"),
            Option("tty", "", "with --detach: give the command a terminal, which `attach` joins"),
            Option("name", "NAME", "name of a detached run, for attach, logs and stop"),
            Option("review", "", "change a copy of the project; review it with `changes` and `apply`"),
            Option("workspace", "NAME", "name of that copy (default: default); implies --review"),
            TRUST,
            Option(
                "rendered",
                "",
                "do not start if the files in .sandbox are out of date (the default if CI=true)",
            ),
        ),
        details="Exits with 125 if the command was not started, and prints the reason on standard error; with"
        " 124 if the time limit was reached.",
        takes_command=True,
        example="sandwright run --preset agent-claude -- claude",
    ),
    Command(
        "fleet",
        GROUP,
        "Run a command many times in a Kubernetes cluster, each time in a separate sandbox.",
        options=(
            Option("count", "N", "number of runs; JOB_COMPLETION_INDEX counts them from 0"),
            Option(
                "rows",
                "FILE",
                "one run for each line: arguments for COMMAND, quoted as in a shell or as a JSON array",
            ),
            Option("parallel", "N", "runs at the same time (default: 10)"),
            Option("retries", "N", "restarts of a run that was killed from outside (default: 2)"),
            Option("name", "NAME", "name of the fleet, for --resume and --remove (default: a new one)"),
            Option(
                "results",
                "FILE",
                "results as JSON lines, one for each run (default: fleet-NAME.jsonl; - for stdout)",
                written=True,
            ),
            Option("resume", "", "continue the fleet NAME: collect the results that FILE does not have yet"),
            Option("remove", "", "stop the fleet NAME and remove it from the cluster"),
            POLICY,
            METHOD,
            PRESET,
            SET,
            TIME,
            TRUST,
        ),
        details="Exits with 6 if a run failed. After Ctrl-C the fleet continues in the cluster.",
        takes_command=True,
        example="sandwright fleet --count 100 --parallel 20 -- python3 simulate.py",
    ),
    Command(
        "learn",
        GROUP,
        "Record a command in its sandbox and propose the least policy under which it passes.",
        options=(
            POLICY,
            PRESET,
            SET,
            Option("time", "TIME", "time limit of each run, such as 90 or 30m", short="t"),
            Option(
                "allow-network",
                "",
                "record with all public hosts open through the proxy, and the seccomp preset `build`",
                retired=("wider",),
            ),
            Option("no-confirm", "", "do not run the command under the proposal", retired=("once",)),
            Option(
                "minimal",
                "",
                "remove one grant at a time and keep those without which the command fails",
                retired=("necessary",),
            ),
            Option("record", "FILE", "save the recording in this file", written=True),
            Option("merge", "FILE", "add the recording of an earlier run", repeatable=True),
            Option("write", "", "write the policy instead of only showing the change"),
            TRUST,
        ),
        details="Prints the change of sandbox.yaml on standard output and the command's output on standard"
        " error. Runs the command several times. Exits with 12 if it does not pass under the proposal.",
        takes_command=True,
        example="sandwright learn --write -- make test",
    ),
    Command(
        "verify",
        GROUP,
        "Prove a policy: attempt in a real sandbox everything that it denies and allows.",
        options=(
            POLICY,
            PRESET,
            Option(
                "method",
                "METHODS",
                "methods to verify, M[,M...], or all (default: the policy's)",
                offered="method",
            ),
            Option(
                "json",
                "FILE",
                "write the results: {probe, method, verdict, expected, observed, evidence}, …",
                written=True,
            ),
            Option("junit", "FILE", "write the results as JUnit XML", written=True),
            Option("html", "FILE", "write a page with all evidence", written=True),
            METHODS_REQUIRED,
            Option("work", "", "also run everyday developer tasks with the installed tools"),
            Option(
                "subject",
                "COMMAND",
                "verify another sandbox: COMMAND runs the words after it in that sandbox",
            ),
            Option(
                "claims",
                "FILE",
                "claims of that sandbox: a file, or the name of a shipped subject",
                retired=("promises",),
            ),
            SET,
            TRUST,
        ),
        details="Fails if a probe ends with another result than expected, or with none. A skipped probe shows"
        " its reason, and fails for the methods in --require.",
        checks="probe",
        example="sandwright verify --method bwrap,docker --html report.html",
    ),
    Command(
        "verify-audit",
        GROUP,
        "Verify an audit log: detect lines that were changed, moved, removed or cut off.",
        positional=(Option("file", "FILE", "the file that `run --audit` wrote", required=True),),
        options=(
            Option("head", "DIGEST", "digest that a run printed at its end; fail if no line has it"),
            JSON,
        ),
        details="Exits with 8 if the log was changed, and names the line.",
        checks="line",
        example="sandwright verify-audit audit.jsonl",
        retired=("audit",),
    ),
    Command(
        "explain",
        GROUP,
        "Show what a policy decides about a path, host, request or system call, and why.",
        positional=(
            Option(
                "question",
                "QUESTION",
                "read, write, exec, connect, request, listen, tool, env or syscall",
                choices=("read", "write", "exec", "connect", "request", "listen", "tool", "env", "syscall"),
            ),
            Option(
                "subject",
                "SUBJECT",
                "a path, HOST:PORT or socket, request, port, tool, variable or system call",
            ),
            Option("argument", "ARGUMENT", "arguments of a system call, decimal or 0x…", repeatable=True),
        ),
        options=(
            POLICY,
            PRESET,
            Option(
                "method",
                "METHODS",
                "methods to ask, M[,M...], or all (default: the policy's)",
                repeatable=True,
                offered="method",
            ),
            Option(
                "arch",
                "ARCH",
                "architecture, amd64 or arm64 (default: the host's)",
                repeatable=True,
            ),
            FACTS,
            SET,
            JSON,
        ),
        details="Also reads the answer back from the rendered artifacts of each method, and compares.",
        example="sandwright explain write .git/hooks/pre-commit",
    ),
    Command(
        "diff",
        GROUP,
        "Show what a change of a policy newly allows and denies, for each method.",
        positional=(
            Option("old", "OLD", "old policy: a file, REVISION:FILE, or a revision", required=True),
            Option("new", "NEW", "new policy; with --revisions, omit it for the work tree"),
        ),
        options=(
            Option("revisions", "", "OLD and NEW are Git revisions; --policy names the file in them"),
            POLICY,
            METHODS,
            SET,
            Option("prove", "", "attempt each change in real sandboxes of both policies"),
            Option("time", "TIME", "fail after this time, such as 90 or 10m (default: no limit)", short="t"),
            Option("json", "FILE", "write every change as JSON", written=True),
            Option("markdown", "FILE", "write a comment for a pull request", written=True),
            Option("sarif", "FILE", "write the changes as SARIF 2.1.0", written=True),
        ),
        details="Exits with 14 if the new policy allows more, with 12 if a sandbox did not behave as"
        " predicted.",
        checks="case",
        example="sandwright diff --revisions origin/main",
    ),
    Command(
        "doctor",
        GROUP,
        "Show which methods work on this machine, and what is missing for the rest.",
        options=(
            Option("method", "METHOD", "method to try (default: all)", repeatable=True, offered="method"),
            Option("fresh", "", "start each sandbox again, even if nothing has changed since the last time"),
            JSON,
        ),
        details="Starts a real sandbox of each method. With --method, also lists the refusals that a run does"
        " not report.",
        example="sandwright doctor --method podman",
    ),
)
