"""A host program that edits files while another program works on them, in a separate process.

A line of JSON on its input is one job: a path, and edits, each with a style, a text and a delay in seconds.
It answers with a line when it is done. Started as `python hosteditor.py`.
"""

import contextlib
import json
import sys
import time
from pathlib import Path


def edit(path: Path, style: str, text: str) -> None:
    """Write a file as editors do: by rename, with the old one as backup, in place, or at its end."""
    other = path.with_name(f"{path.name}~")
    if style == "rename":
        other.write_text(text)
        other.rename(path)
        return
    if style == "backup":
        with contextlib.suppress(FileNotFoundError):
            path.rename(other)
    with path.open("a" if style == "append" else "w") as file:
        file.write(text[: len(text) // 2])
        file.flush()
        time.sleep(0.002 if style == "slow" else 0)
        file.write(text[len(text) // 2 :])


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        for style, text, delay in job["edits"]:
            until = time.perf_counter() + delay
            while time.perf_counter() < until:
                pass
            edit(Path(job["path"]), style, text)
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
