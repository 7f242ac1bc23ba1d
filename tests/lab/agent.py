"""Runs in a machine of the lab: takes commands from a virtio port and answers with their output.

Each request and each answer is a line of JSON. A request is `{"command": TEXT, "user": NAME, "timeout":
SECONDS}`; the answer `{"status": NUMBER, "output": TEXT}`, with the status -1 if the time was up. The first
line says that the machine is ready.
"""

from __future__ import annotations

import json
import os
import subprocess
import time

PORT = "/dev/virtio-ports/lab"
TIME_UP = -1


def run(request: dict[str, object]) -> dict[str, object]:
    """Run a command as in a login of the user: PAM and systemd make a session for it."""
    words = ["runuser", "-l", str(request["user"]), "-c", str(request["command"])]
    seconds = float(str(request["timeout"]))
    try:
        ended = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return {"status": TIME_UP, "output": (error.stdout or b"").decode(errors="replace")}
    return {"status": ended.returncode, "output": ended.stdout.decode(errors="replace")}


def send(port: int, answer: dict[str, object]) -> None:
    """Write a line."""
    line = json.dumps(answer).encode() + b"\n"
    while line:
        line = line[os.write(port, line) :]


def main() -> None:
    """Serve until the machine is stopped. Reads return nothing while the host's end is closed."""
    port = os.open(PORT, os.O_RDWR)
    send(port, {"ready": True})
    received = b""
    while True:
        part = os.read(port, 1 << 16)
        if not part:
            time.sleep(0.1)
        received += part
        while b"\n" in received:
            line, _, received = received.partition(b"\n")
            send(port, run(json.loads(line)))


if __name__ == "__main__":
    main()
