"""A terminal in a cluster, with a user at a real terminal here and a stand-in for the API server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from cluster.fakecluster import RUNNING, FakeCluster, fake_cluster
from cluster.test_kubernetes_run import EXITED, _client
from sandwright_kubernetes.connection import first, last_bytes
from sandwright_kubernetes.sync.channels import Channels
from sandwright_kubernetes.terminal import join_output, read_output
from session.terminals import terminal

pytest.importorskip("kubernetes", reason="the Python package `kubernetes` is not installed")


def _at_terminal(folder: Path, fake: FakeCluster, keys: tuple[tuple[bytes, bytes], ...]) -> tuple[int, bytes]:
    """Run a function on a terminal, type keys and wait for the output of each; return status and output."""
    with fake_cluster(fake, folder) as kubeconfig:
        client = _client(folder, kubeconfig)
        argv = client.argv("sh")
        with terminal(argv, folder, client.environment) as window:
            shown = b""
            for typed, answer in keys:
                window.type(typed)
                shown += window.read_until(answer)
            window.resize(20, 70)
            window.type(b"\x04")
            status = window.end()
            assert window.settings == window.before
        return status, shown


def test_keys_the_size_and_the_status(tmp_path: Path) -> None:
    """^C is a key here, and no signal. The prompt is shown once, even if the log has it, too."""
    fake = FakeCluster(state=RUNNING, log=b"motd\n", shown=b"motd\r\n$ ")
    status, shown = _at_terminal(tmp_path, fake, ((b"", b"$ "), (b"ls\r", b"<ls\r>"), (b"\x03", b"<\x03>")))
    assert status == 7
    assert shown == b"motd\r\n$ <ls\r><\x03>"
    sizes = [json.loads(data) for channel, data in fake.seen if channel == 4]
    assert sizes[0] == {"Width": 117, "Height": 31}
    assert sizes[-1] in ({"Width": 117, "Height": 31}, {"Width": 70, "Height": 20})
    (job,) = fake.made
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert (container["stdin"], container["tty"], container.get("stdinOnce")) == (True, True, None)
    assert not fake.jobs


def test_a_connection_that_breaks_is_made_again(tmp_path: Path) -> None:
    fake = FakeCluster(state=RUNNING, shown=b"$ ")
    status, _ = _at_terminal(tmp_path, fake, ((b"", b"$ "), (b"!", b"$ "), (b"x", b"<x>")))
    assert (status, fake.asked.count("GET attach")) == (7, 2)


def test_what_has_ended_already_shows_its_log(tmp_path: Path) -> None:
    fake = FakeCluster(state=EXITED, log=b"said\r\n")
    with fake_cluster(fake, tmp_path) as kubeconfig:
        client = _client(tmp_path, kubeconfig)
        with terminal(client.argv("true"), tmp_path, client.environment) as window:
            window.read_until(b"said\r")
            assert window.end() == 7
    assert "GET attach" not in fake.asked


def test_without_the_right_to_attach_there_is_none(tmp_path: Path) -> None:
    fake = FakeCluster(state=EXITED, log=b"said\r\n", denied=("create pods/attach",))
    with fake_cluster(fake, tmp_path) as kubeconfig:
        client = _client(tmp_path, kubeconfig)
        with terminal(client.argv("true"), tmp_path, client.environment) as window:
            assert b"the command has no terminal" in window.read_until(b"said\r")
            assert window.end() == 7
    assert "tty" not in fake.made[0]["spec"]["template"]["spec"]["containers"][0]


def test_no_terminal_where_the_output_is_none(tmp_path: Path) -> None:
    fake = FakeCluster(state=EXITED, log=b"said\n")
    with fake_cluster(fake, tmp_path) as kubeconfig:
        client = _client(tmp_path, kubeconfig)
        words = (f"exec {' '.join(map(_quoted, client.argv('true')))} >{tmp_path}/out",)
        with terminal(("/bin/sh", "-c", *words), tmp_path, client.environment) as window:
            assert window.end() == 7
    assert (tmp_path / "out").read_text() == "said\n"
    assert "tty" not in fake.made[0]["spec"]["template"]["spec"]["containers"][0]


def _quoted(word: str | os.PathLike[str]) -> str:
    return "'" + str(word).replace("'", "'\\''") + "'"


@pytest.mark.parametrize(
    ("log", "attached", "all_of_it"),
    [
        (b"", b"$ ", b"$ "),
        (b"a\r\nb\r\n", b"", b"a\r\nb\r\n"),
        (b"a\r\nb\r\n", b"b\r\nc", b"a\r\nb\r\nc"),
        (b"a\r\nb\r\n", b"a\r\nb\r\n", b"a\r\nb\r\n"),
        (b"a\r\n", b"c\r\n", b"a\r\nc\r\n"),
    ],
)
def test_the_log_and_what_comes_are_joined(log: bytes, attached: bytes, all_of_it: bytes) -> None:
    assert join_output(log, attached) == all_of_it


@pytest.mark.timeout(30)
def test_a_flood_is_joined_at_once() -> None:
    """A program may write anything before a client attaches, and the terminal is raw meanwhile."""
    flood, other = b"a" * (1 << 21) + b"b", b"a" * (1 << 21)
    assert join_output(flood, other) == flood + other


def test_a_flood_waits_until_it_is_shown() -> None:
    """A terminal is slower than a program that writes without pause: the waiting output is bounded."""
    taken = 0

    class Endless:
        def messages(self) -> Iterator[tuple[int, bytes]]:
            nonlocal taken
            while taken < 100_000:
                taken += 1
                yield 1, b"y\r\n"

    shown = read_output(cast("Channels", Endless()))
    assert shown.get(timeout=5) == b"y\r\n"
    time.sleep(0.5)
    assert taken < 1000
    while shown.get(timeout=5):
        pass
    assert taken == 100_000


def test_no_more_than_a_part_of_a_log_is_kept() -> None:
    """A server, or a program that writes without pause, sends more than was requested."""
    endless = iter(lambda: b"x" * 100, b"")
    assert first(endless, 250) == b"x" * 250
    assert last_bytes(iter([b"abc", b"defg", b"h"]), 3) == b"fgh"
    assert last_bytes(iter([b"a"]), 3) == b"a"
