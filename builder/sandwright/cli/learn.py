"""`sandwright learn`: proposes the least policy for a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sandwright.cli import console
from sandwright.errors import UsageError, VerdictError
from sandwright.learn import profile
from sandwright.learn.attempt import RecordedCommand, recording_method
from sandwright.learn.learn import ALLOW_NETWORK, Learned, Learner
from sandwright.learn.proposal import difference
from sandwright.outputs import write_output
from sandwright.policy.names import cache_word
from sandwright.session.access_log import AccessLog, access_log_lines, read_access_log
from sandwright.session.denials import printable_line as shown
from sandwright.user_dirs import find_above
from sandwright.visible import notify

_MOST_LINES = 40


def learn(
    *,
    words: Sequence[str] = (),
    policy: str = "",
    preset: Sequence[str] = (),
    set: Sequence[str] = (),  # noqa: A002 - the option's name
    time: str = "",
    allow_network: bool = False,
    no_confirm: bool = False,
    minimal: bool = False,
    merge: Sequence[str] = (),
    record: str = "",
    write: bool = False,
    trust_policy: bool = False,
) -> None:
    """Record the accesses of a command, and print the proposed change of the policy.

    Raise VerdictError if the command fails under the changed policy.
    """
    if not words and not merge:
        raise UsageError("give a command to learn from, behind --, or records of earlier runs by --merge")
    named = [each.partition("=")[0] for each in set]
    settings = [
        *set,
        *[each for each in ALLOW_NETWORK if allow_network and each.partition("=")[0] not in named],
    ]
    file = policy or find_above("sandbox.yaml")
    command = RecordedCommand(
        tuple(words) or ("true",), file, bool(policy), tuple(preset), tuple(settings), trust_policy, time
    )
    learner = Learner(command, notify, [_read_recording(Path(each)) for each in merge])
    saved = _recording_path(Path(record), learner) if record else None
    learned = learner.learn(again=not no_confirm, necessary=minimal) if words else learner.proposed()
    if saved:
        _write_recording(saved, learned)
    for line in _summary_lines(learner, learned):
        notify(line)
    _print_change(Path(command.request().policy), learned, write=write)
    if learned.first:
        raise VerdictError(f"the command fails under the current policy, with {learned.first}")
    if learned.passed is False:
        why = (
            "it needs accesses that cannot be recorded"
            if learned.repeatable
            else "nor a second time under the current policy"
        )
        raise VerdictError(f"the command does not pass under the proposal: {why}")


def _read_recording(file: Path) -> AccessLog:
    """A record of an earlier run. Raise UsageError for one that holds no call."""
    record = read_access_log(file)
    if not (record.accesses or record.contacts or record.calls or record.hosts):
        raise UsageError(f"{file} is no record of a run: no call is in it")
    return record


def _recording_path(file: Path, learner: Learner) -> Path:
    """The path of the record: resolved before the command runs, which may change links that it can write.

    Raise UsageError for a file that the command could put something else in the place of.
    """
    target = file.parent.resolve() / file.name
    if learner.bounds.writable(str(target)):
        raise UsageError(f"--record {file} is where the sandbox may write")
    return target


def _write_recording(file: Path, learned: Learned) -> None:
    text = "".join(f"{line}\n" for each in learned.records for line in access_log_lines(each))
    write_output(str(file), text.encode())


def _print_change(file: Path, learned: Learned, *, write: bool) -> None:
    """The change of the policy's file; it is written if the user asked for that."""
    old = file.read_text(encoding="utf-8") if file.exists() else None
    new = learned.proposal.edit(f"schema: 1\nmethod: {recording_method()}\n" if old is None else old)
    for line in difference(old, new, file.name).splitlines():
        console.line(line)
    if write and learned.passed is not False and not learned.first:
        if file.is_symlink():
            raise UsageError(f"{file} is a symbolic link: nothing is written through one")
        write_output(str(file), new.encode())
        notify(f"{file} is written")


def _summary_lines(learner: Learner, learned: Learned) -> Iterator[str]:
    seen = sum(each.seen for each in learned.records)
    paths = len({access.real for each in learned.records for access in each.accesses})
    runs = console.counted(len(learned.records), "run")
    yield f"recorded: {seen} calls with paths, {console.counted(paths, 'path')}, {runs}"
    for name in ("dropped", "unresolved"):
        count = sum(getattr(each, name) for each in learned.records)
        if count:
            yield f"{name}: {count} calls, so the proposal may lack something"
    if learned.passed is not None:
        after = console.counted(learned.turns, "run")
        yield f"under the proposal: {'passes' if learned.passed else 'fails'}, after {after}"
    calls = profile.call_names(learner.current, learned.needs.calls)
    if learned.proposal.seccomp:
        beyond = f"; calls that strict refuses were tried: {', '.join(calls)}" if calls else ""
        yield f"system calls: {learned.proposal.seccomp} suffices{beyond}"
    for item, needed in learned.necessary:
        found = "the command fails" if needed else "it passes, so this grant was removed"
        yield f"without {item.value}: {found}"
    yield from _requested_lines(learner, learned)
    if learned.proposal.variables is None:
        yield "variables: reads of variables cannot be recorded, so `environment` is not changed"


def _requested_lines(learner: Learner, learned: Learned) -> Iterator[str]:
    """The requested accesses that are not granted, with the tool whose cache it is, if any."""
    requested = sorted(learned.needs.requested.items())
    if requested:
        yield "requested but not proposed, because the current policy or the preset `default` denies it:"
    home = learner.current.facts.home
    for (what, kind), why in requested[:_MOST_LINES]:
        tool = cache_word(what, home)
        hint = (
            f"; `cache: [{tool}]` gives {tool} one of this project's own" if tool and kind == "write" else ""
        )
        yield f"  {kind} {shown(what)}: {why}{hint}"
    if len(requested) > _MOST_LINES:
        yield f"  and {len(requested) - _MOST_LINES} more"
