"""The relay when a sandbox opens more connections than the limit permits."""

from __future__ import annotations

import sys

import pytest

from sandwright import process

FLOOD = """
import os, resource, select, socket, sys

limit = int(sys.argv[1])
server = socket.create_server(("127.0.0.1", 0), backlog=500)
door = socket.create_server(("127.0.0.1", 0), backlog=500)
end, begin = os.pipe()


def serve():
    while not select.select([server, end], [], [])[0] == [end]:
        with server.accept()[0] as taken:
            select.select([taken], [], [], 0.5)
            taken.sendall(taken.recv(100))


def crowd():
    held = [socket.create_connection(door.getsockname()) for _ in range(300)]
    select.select([end], [], [])


children = []
for work in (serve, crowd):
    ways = os.pipe()
    if not os.fork():
        end = ways[0]
        os.close(ways[1])
        for other in children:
            os.close(other)
        work()
        os._exit(0)
    os.close(ways[0])
    children.append(ways[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

from sandwright.egress.relay import Relay

relay = Relay(*server.getsockname(), b"hello ")
relay.listen(door)
poll = select.poll()
poll.register(relay.fileno(), select.POLLIN)


def turn():
    for _ in range(5000):
        if not relay.busy and not poll.poll(300):
            return
        relay.turn()
    sys.exit("it never comes to rest")


turn()
os.close(children.pop())
turn()
with socket.create_connection(door.getsockname()) as late:
    late.sendall(b"world")
    turn()
    late.settimeout(10)
    print(late.recv(100).decode())
"""


@pytest.mark.parametrize("limit", [80, 200, 1000])
def test_a_flood_ends_nothing(limit: int) -> None:
    """Three hundred connections, each with four or more descriptors, share one limit."""
    said = process.run(sys.executable, "-c", FLOOD, str(limit), timeout=60, check=False)
    assert (said.status, said.text.strip(), said.stderr) == (0, "hello world", "")
