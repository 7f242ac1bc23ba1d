#!/usr/bin/python3
"""runsc in place of runc, for containerd's shim of runc on a machine like this one.

No process here may lower an `oom_score_adj`, the cgroups are of two versions, KVM does not end, and Debian's
runsc takes the network of each namespace of this kernel for the machine's: it gets none.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

COMMAND = ("/usr/bin/runsc", "--platform=ptrace", "--ignore-cgroups", "--network=none", "--oci-seccomp")
OF_SHIMS = ("io.kubernetes.cri.container-type", "io.kubernetes.cri.sandbox-id")
"""With these annotations, gVisor's own shim runs all containers of a Pod in one sandbox. Here each has its
own, as in Docker."""


def main(words: list[str]) -> None:
    """Execute runsc. Settings of a bundle that are unavailable here are removed."""
    if "kill" in words:
        sys.exit(_kill(words))
    if "--bundle" in words:
        config = Path(words[words.index("--bundle") + 1], "config.json")
        spec = json.loads(config.read_text())
        spec["process"].pop("oomScoreAdj", None)
        for name in OF_SHIMS:
            spec.get("annotations", {}).pop(name, None)
        config.write_text(json.dumps(spec))
    _keep_null()
    os.execv(COMMAND[0], [*COMMAND, *words])


def _keep_null() -> None:
    """runsc makes its user the owner of a container's streams, so it gets a separate /dev/null."""
    machines = Path(os.devnull).stat()
    with tempfile.TemporaryDirectory(dir="/dev") as folder:  # where a device can be opened
        node = Path(folder, "null")
        os.mknod(node, stat.S_IFCHR | 0o666, machines.st_rdev)
        for stream in range(3):
            if os.path.samestat(os.fstat(stream), machines):
                own = os.open(node, os.O_RDWR)
                os.dup2(own, stream)
                os.close(own)


def _kill(words: list[str]) -> int:
    """The shim recognises an ended container by runc's message."""
    ended = subprocess.run([*COMMAND, *words], stderr=subprocess.PIPE, check=False, timeout=60)
    said = b"container not running\n" if b"is not running" in ended.stderr else ended.stderr
    sys.stderr.buffer.write(said)
    return ended.returncode


if __name__ == "__main__":
    main(sys.argv[1:])
