"""A rendered sandbox that runs in a cluster, from this process or from another."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from sandwright_kubernetes import start
from sandwright_kubernetes.backend import Kubernetes


class Client:
    """A rendered sandbox, and a person with a kubeconfig."""

    def __init__(self, folder: Path, kubeconfig: Path, directory: Path) -> None:
        """`folder` is a home, `directory` has rendered artifacts."""
        self.home = folder
        self.directory = directory
        self.environment = {
            "PATH": os.defpath,
            "HOME": str(folder),
            "KUBECONFIG": str(kubeconfig),
            "SANDWRIGHT_SESSION": "0123456789abcdef",
        }

    def argv(self, *command: str) -> tuple[str, ...]:
        """The command line that runs it from another process."""
        return Kubernetes().wrap(self.directory, command)

    def run(self, *command: str, stdin: bytes | None = None) -> tuple[int, str, str]:
        """Run it from this process, with `stdin` or no input; return its status and its output."""
        before = {
            number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }
        try:
            with (
                pytest.MonkeyPatch.context() as patch,
                tempfile.TemporaryFile() as out,
                tempfile.TemporaryFile() as err,
            ):
                for name in os.environ:
                    patch.delenv(name)
                for name, value in self.environment.items():
                    patch.setenv(name, value)
                with _input(stdin), _redirected(out, err):
                    status = start.main([str(self.directory), *command])
                return status, _text(out), _text(err)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def records(self) -> list[Path]:
        """The existing records of Jobs."""
        return sorted((self.home / ".cache/sandwright/sessions/clusters").glob("*.json"))


@contextlib.contextmanager
def _input(content: bytes | None) -> Iterator[None]:
    with tempfile.TemporaryFile() as file:
        file.write(content or b"")
        file.seek(0)
        kept, null = os.dup(0), os.open(os.devnull, os.O_RDONLY)
        os.dup2(null if content is None else file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(kept, 0)
            os.close(kept)
            os.close(null)


@contextlib.contextmanager
def _redirected(out: IO[bytes], err: IO[bytes]) -> Iterator[None]:
    kept = os.dup(1), os.dup(2)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    try:
        yield
    finally:
        for number, descriptor in zip((1, 2), kept, strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
