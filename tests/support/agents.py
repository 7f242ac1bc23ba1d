"""Coding agents and their tools: a thorough run installs them from npm and PyPI, and caches them."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from sandwright import process
from sandwright.errors import HostError, SandwrightError
from sandwright.image.cache import default_cache
from support.gotools import missing
from support.thorough import THOROUGH

PACKAGES: Mapping[str, str] = {
    "aider": "aider-chat==0.86.2",
    "aws": "awscli==1.46.3",
    "claude": "@anthropic-ai/claude-code@2.1.332",
    "codex": "@openai/codex@0.171.0",
    "copilot": "@github/copilot@1.0.102",
    "gemini": "@google/gemini-cli@0.61.0",
    "opencode": "opencode-ai@1.18.33",
    "qwen": "@qwen-code/qwen-code@0.24.4",
}
"""The package of each program. Crush is missing: its package downloads a program from another server."""

_INSTALL = 600.0


def require(name: str) -> Path:
    """The directory of an agent's program. Skip if it isn't installed and the run isn't thorough."""
    place = default_cache(os.environ) / "tests/agents" / PACKAGES[name].replace("/", "-")
    try:
        _install(name, place)
    except HostError as error:
        missing(name, error)
    return place / "bin"


def _install(name: str, place: Path) -> None:
    """Install it unless it exists. Raise HostError if that fails."""
    installer = "npm" if PACKAGES[name].rpartition("@")[0] else "pip"
    if not THOROUGH and not (place / "bin" / name).exists():
        raise HostError(f"{name} is not installed; a thorough run installs it by {installer}")
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (place / "bin" / name).exists():
            return
        try:
            if installer == "npm":
                npm = ("npm", "install", "--global", "--no-audit", "--no-fund", "--prefix", place)
                process.run(*npm, PACKAGES[name], timeout=_INSTALL)
                return
            process.run(sys.executable, "-m", "venv", place, timeout=_INSTALL)
            process.run(place / "bin/pip", "install", "--quiet", PACKAGES[name], timeout=_INSTALL)
        except SandwrightError as error:
            raise HostError(f"{name} can't be installed: {str(error).splitlines()[0]}") from error
