"""`sandwright run`, with few imports, so that the command starts at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial

from sandwright.cli.functions import function_of
from sandwright.errors import HostError, SandwrightError, UsageError
from sandwright.lazy import load
from sandwright.session.request import RunRequest
from sandwright.session.run import LAUNCHER_FAILED
from sandwright.session.run import run as run_request
from sandwright.user_dirs import find_above, is_inside_sandbox
from sandwright.visible import notify, one_line

_NESTED = (
    "already inside a sandwright sandbox: run the command without `sandwright run`; the outer policy holds"
)


def run(*, words: Sequence[str], **options: str | bool | list[str]) -> int:
    """Run a command in the sandbox of a policy; give the exit status: 125 when nothing was run."""
    return with_status(partial(_run, words, **options))


def _run(words: Sequence[str], **options: str | bool | list[str]) -> int:
    request = request_of(words, **options)  # type: ignore[arg-type]  # by the table
    if request.build:
        _build_missing(request)
    if request.detach:
        from sandwright.cli.detaching import detach  # noqa: PLC0415 - few runs are detached

        return detach(request, lambda: with_status(partial(run_request, request, notify=notify)))
    for value, what in ((request.name, "--name names"), (request.tty, "--tty gives a terminal to")):
        if value:
            raise UsageError(f"{what} a detached run: add --detach")
    return run_request(request, notify=notify)


def _build_missing(request: RunRequest) -> None:
    """Build the images that the run needs, for this platform. Standard output is the command's."""
    names, platform = load("sandwright.session.missing_images:missing_images")(request)
    if names:
        with redirect_stdout(sys.stderr):
            function_of("build-images")(name=names, platform=(platform,), smoke=False)


def with_status(function: Callable[[], int]) -> int:
    """The exit status that a function gives; 125 for an error, which is reported, and 130 for Ctrl-C."""
    try:
        return function()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if not isinstance(error, SandwrightError | OSError):
            raise
        message = error.shown() if isinstance(error, SandwrightError) else one_line(str(error))
        nested = [_NESTED] if isinstance(error, HostError) and is_inside_sandbox() else []
        for line in [*nested, *message.split("\n")]:
            notify(line)
        return LAUNCHER_FAILED


def request_of(
    words: Sequence[str],
    *,
    policy: str = "",
    method: str = "",
    gvisor_engine: str = "",
    preset: Sequence[str] = (),
    set: Sequence[str] = (),  # noqa: A002 - the option's name
    time: str = "",
    cidfile: str = "",
    telemetry: str = "",
    audit: str = "",
    denials: str = "",
    quiet: bool = False,
    explain_denials: bool = False,
    trust_policy: bool = False,
    rendered: bool = False,
    build: bool = False,
    detach: bool = False,
    tty: bool = False,
    name: str = "",
    review: bool = False,
    workspace: str = "",
) -> RunRequest:
    """The request that the options make. Without `policy` the file is looked for, and need not be there."""
    return RunRequest(
        list(words),
        policy=policy or find_above("sandbox.yaml"),
        named=bool(policy),
        method=method,
        presets=list(preset),
        settings=[
            *set,
            *["workspace=review"] * (review or bool(workspace)),
            *[f"gvisor.engine={gvisor_engine}"] * bool(gvisor_engine),
        ],
        time=time,
        cidfile=cidfile,
        telemetry=telemetry,
        audit=audit,
        denials=denials,
        quiet=quiet,
        explained=explain_denials,
        trusted=trust_policy,
        rendered=rendered,
        build=build,
        detach=detach,
        tty=tty,
        name=name,
        workspace=workspace,
    )
