"""The commands below the heading "every day"."""

from __future__ import annotations

from sandwright.cli.commands.command import Command, Option
from sandwright.cli.commands.options import FACTS, JSON, METHODS_REQUIRED, POLICY, SET, TRUST

GROUP = "every day"

METHOD = Option(
    "method",
    "METHOD",
    "method of this run, in place of the policy's",
    short="m",
    offered="method",
)
PRESET = Option(
    "preset",
    "PRESET",
    "a preset above the policy, such as agent-claude; then no policy has to be there",
    repeatable=True,
)
TIME = Option("time", "TIME", "time limit: 90, 30m (as --set resources.time=TIME)", short="t")

COMMANDS = (
    Command(
        "init",
        GROUP,
        "Propose a sandbox.yaml for a project, with a comment for each choice.",
        options=(
            Option("directory", "DIR", "the project's directory (default: this one)"),
            Option(
                "method",
                "METHOD",
                "method of the policy (default: the first that works here)",
                offered="method",
            ),
            Option(
                "agent",
                "AGENT",
                "coding agent that works in the project: its preset is the policy's base",
                choices=("claude", "codex", "gemini", "aider", "opencode"),
            ),
            Option("yes", "", "write it without asking"),
        ),
        details="Shows the policy, and writes it after a yes; never over an existing one. Exits with 3 when"
        " it wrote nothing: the answer was no, or there was no terminal to ask on.",
    ),
    Command(
        "run",
        GROUP,
        "Run a command in the sandbox of a policy; exits as the command does.",
        options=(
            POLICY,
            METHOD,
            PRESET,
            Option(
                "outer",
                "ENGINE",
                "engine whose container gVisor runs in: docker or podman (as --set outer=ENGINE)",
            ),
            SET,
            TIME,
            Option(
                "cidfile",
                "FILE",
                "write the container's id (without an engine, the session's) to this new file",
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
                "append what was refused to this file, a line of JSON for each kind of refusal",
                written=True,
            ),
            Option("explain-denials", "", "say which paths were refused, too, which takes time (bwrap)"),
            Option("quiet", "", "don't say on standard error what was refused"),
            Option(
                "audit",
                "FILE",
                "append start, refusals, calls and end to this audit log, out of its reach",
                written=True,
            ),
            TRUST,
        ),
        details="Exits with 125 when it ran nothing, with the reason on standard error; with 124 when the "
        "time was up.",
        takes_command=True,
    ),
    Command(
        "fleet",
        GROUP,
        "Run a command many times in a cluster, each time in a sandbox of its own.",
        options=(
            Option("count", "N", "number of runs; JOB_COMPLETION_INDEX tells a run which it is, from 0"),
            Option(
                "rows", "FILE", "a row for each run: words behind COMMAND, quoted as in a shell, or as JSON"
            ),
            Option("parallel", "N", "runs at a time (default: 10)"),
            Option("retries", "N", "restarts of a run that was killed from outside (default: 2)"),
            Option("name", "NAME", "the fleet's name, to resume or remove it by (default: a new one)"),
            Option(
                "results",
                "FILE",
                "JSON lines, one for each run (default: fleet-NAME.jsonl; - for stdout)",
                written=True,
            ),
            Option("resume", "", "go on with the fleet NAME: collect the results that FILE has not"),
            Option("remove", "", "end the fleet NAME, and remove it from the cluster"),
            POLICY,
            METHOD,
            PRESET,
            SET,
            TIME,
            TRUST,
        ),
        details="Exits with 6 when a run failed. Ctrl-C leaves the fleet to the cluster, where it goes on.",
        takes_command=True,
    ),
    Command(
        "learn",
        GROUP,
        "Record a command in its sandbox, and propose the least policy under which it passes.",
        options=(
            POLICY,
            PRESET,
            SET,
            Option("time", "TIME", "time limit of each run: 90, 30m", short="t"),
            Option(
                "wider",
                "",
                "record with every public host open through the proxy, and the filter `build`",
            ),
            Option("once", "", "don't run the command under the proposal"),
            Option("necessary", "", "leave out each grant in turn, and keep those without which it fails"),
            Option("record", "FILE", "keep what was recorded in this file", written=True),
            Option("merge", "FILE", "a record of an earlier run, which counts, too", repeatable=True),
            Option("write", "", "write the policy, instead of only showing the change"),
            TRUST,
        ),
        details="Prints the change of sandbox.yaml; what the command writes goes to standard error. Runs the "
        "command several times. Exits with 12 when it doesn't pass under the proposal.",
        takes_command=True,
    ),
    Command(
        "audit",
        GROUP,
        "Check an audit log: whether a line was changed, moved, removed or cut off.",
        positional=(Option("file", "FILE", "the file that `run --audit` wrote", required=True),),
        options=(
            Option("head", "DIGEST", "what a run said at its end: some line must have it"),
            JSON,
        ),
        details="Exits with 8 when something is wrong, and names the line.",
        checks="line",
    ),
    Command(
        "verify",
        GROUP,
        "Prove a policy: attempt in a real sandbox what it denies and what it allows.",
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
                "write the outcomes to it: {probe, method, verdict, expected, observed, evidence}, …",
                written=True,
            ),
            Option("junit", "FILE", "write them to it as JUnit XML", written=True),
            Option("html", "FILE", "write a page with all evidence to it", written=True),
            METHODS_REQUIRED,
            Option("work", "", "also do what people do in projects, with the programs that are installed"),
            Option(
                "subject",
                "COMMAND",
                "prove this command instead, which runs the words behind it in a sandbox",
            ),
            Option("promises", "FILE", "what it promises: a file, or the name of a subject that ships"),
            SET,
            TRUST,
        ),
        details="Fails when a probe has another outcome than expected, or none. Every skip gives a reason, "
        "and fails for methods that --require names.",
        checks="probe",
    ),
    Command(
        "explain",
        GROUP,
        "Show what a policy says about a path, host or call, and what each method does.",
        positional=(
            Option(
                "question",
                "QUESTION",
                "read, write, exec, connect, listen, env or syscall",
                choices=("read", "write", "exec", "connect", "listen", "env", "syscall"),
            ),
            Option("subject", "SUBJECT", "a path, HOST:PORT or socket, port, variable, or system call"),
            Option("argument", "ARGUMENT", "arguments of a system call, decimal or 0x…", repeatable=True),
        ),
        options=(
            POLICY,
            PRESET,
            Option("method", "METHOD", "a method to ask (default: all)", repeatable=True, offered="method"),
            Option(
                "arch",
                "ARCH",
                "an architecture to ask for, amd64 or arm64 (default: the host's)",
                repeatable=True,
            ),
            FACTS,
            SET,
            JSON,
        ),
    ),
    Command(
        "diff",
        GROUP,
        "Show what a change of a policy newly allows and denies, for each method.",
        positional=(
            Option("old", "OLD", "the policy before: a file, REVISION:FILE, or a revision", required=True),
            Option("new", "NEW", "the policy after; with --revisions absent for the work tree"),
        ),
        options=(
            Option("revisions", "", "OLD and NEW are revisions of Git, whose file --policy names"),
            POLICY,
            Option("method", "METHOD", "a method to ask (default: all)", repeatable=True, offered="method"),
            SET,
            Option("prove", "", "attempt each change in a sandbox, under the old policy and the new one"),
            Option(
                "time", "TIME", "time after which to give up, and fail: 90, 10m (default: none)", short="t"
            ),
            Option("json", "FILE", "write every change to it as JSON", written=True),
            Option("markdown", "FILE", "write a comment for a pull request to it", written=True),
            Option("sarif", "FILE", "write the changes to it as SARIF 2.1.0", written=True),
        ),
        details="Exits with 14 when the new policy allows more, with 12 when a sandbox did otherwise than "
        "was said.",
        checks="case",
    ),
    Command(
        "doctor",
        GROUP,
        "Start a sandbox of each method, to show which work here, and what the others lack.",
        options=(
            Option("method", "METHOD", "a method to try (default: all)", repeatable=True, offered="method"),
            Option("fresh", "", "start each sandbox anew, even if nothing has changed since the last time"),
            JSON,
        ),
    ),
    Command(
        "status",
        GROUP,
        "Show this user's running sessions, and what each enforces.",
        options=(JSON,),
    ),
    Command(
        "cleanup",
        GROUP,
        "Remove what killed sessions left behind; never what runs, or isn't ours.",
        options=(
            Option("caches", "", "remove the caches that projects keep (`cache` in a policy), too"),
            Option("dry-run", "", "only show what would be removed"),
            JSON,
        ),
    ),
)
