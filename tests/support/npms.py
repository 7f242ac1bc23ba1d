"""A registry of npm on loopback, with small packages, and a small world with an image of them."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import json
import os
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sandwright.image.build import BuiltImage
from sandwright.image.cache import Cache
from sandwright.image.definition import load_catalogue
from sandwright.image.lock import Lock, write_lock
from sandwright.image.npm import with_npm
from support.debs import Member, tar
from support.localhttp import QuietHandler, listening
from support.smallworld import BASE, World

LOCK_FILE = "files/package-lock.json"
DEFINITION = BASE.replace("smoke:", f"languages: {{npm: {LOCK_FILE}}}\nsmoke:")
REGISTRY = "https://registry.npmjs.org"


@dataclass(frozen=True)
class Npm:
    """A package. `described` are further fields of its package.json, `members` of its archive."""

    name: str
    version: str = "1.0.0"
    files: Mapping[str, str] = field(default_factory=dict)
    described: Mapping[str, Any] = field(default_factory=dict)
    members: Sequence[Member] = ()

    @property
    def document(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, **self.described}

    @property
    def address(self) -> str:
        return f"{self.name}/-/{self.name.rpartition('/')[2]}-{self.version}.tgz"

    def build(self) -> bytes:
        texts = {"package.json": json.dumps(self.document), **self.files}
        members = [Member(f"package/{name}", text) for name, text in texts.items()]
        return gzip.compress(tar([*members, *self.members]), mtime=0)

    @property
    def integrity(self) -> str:
        return f"sha512-{base64.b64encode(hashlib.sha512(self.build()).digest()).decode()}"

    def entry(self, **more: object) -> dict[str, object]:
        """Its entry in a package-lock.json."""
        resolved = f"{REGISTRY}/{self.address}"
        return {"version": self.version, "resolved": resolved, "integrity": self.integrity, **more}


def package_lock(packages: Mapping[str, Mapping[str, object]], direct: Sequence[str] = ()) -> str:
    """A package-lock.json; `packages` by directory below node_modules."""
    root = {"name": "tools", "version": "1.0.0", "dependencies": dict.fromkeys(direct, "*")}
    entries = {"": root, **{f"node_modules/{path}": entry for path, entry in packages.items()}}
    head = {"name": "tools", "version": "1.0.0", "lockfileVersion": 3, "requires": True}
    return json.dumps({**head, "packages": entries}, indent=2)


MODULES = "usr/local/lib/node_modules"
TOOL = Npm(
    "tool",
    files={"bin/run.js": "#!/usr/bin/env node\n", "lib/data.txt": "data\n"},
    described={
        "bin": {"tool": "./bin/run.js"},
        "scripts": {"postinstall": "touch /tmp/ran"},
        "license": "MIT",
        "dependencies": {"@scope/helper": "1.0.0"},
    },
)
HELPER = Npm("@scope/helper", "2.1.0-rc.1", {"index.js": "helper"}, {"bin": "index.js"})
NESTED = Npm("@scope/helper", "1.0.0", {"index.js": "older"})
SAME_FILE = Npm("scope-helper", "1.0.0", {"index.js": "another"})
NATIVE = {
    platform: Npm(f"native-{cpu}", files={"native.node": platform})
    for platform, cpu in (("linux/amd64", "x64"), ("linux/arm64", "arm64"))
}
OFFERED = [TOOL, HELPER, NESTED, SAME_FILE, *NATIVE.values()]
ENTRIES: dict[str, dict[str, object]] = {
    "tool": TOOL.entry(hasInstallScript=True, dependencies={"@scope/helper": "1.0.0"}),
    "tool/node_modules/@scope/helper": NESTED.entry(),
    "@scope/helper": HELPER.entry(),
    "scope-helper": SAME_FILE.entry(),
    **{
        each.name: each.entry(optional=True, os=["linux"], cpu=[each.name.removeprefix("native-")])
        for each in NATIVE.values()
    },
    "for-tests": {"version": "1.0.0", "dev": True},
}
TEXT = package_lock(ENTRIES, ["tool", "native-x64"])


class NpmRegistry(QuietHandler):
    """Serves packages; `offered` are the available ones, `asked` the paths of requests."""

    offered: list[Npm]
    asked: list[str]

    def do_GET(self) -> None:
        path = urllib.parse.unquote(self.path).lstrip("/")
        self.asked.append(path)
        archive = next((each for each in self.offered if each.address == path), None)
        versions = [each for each in self.offered if each.name == path]
        if archive is not None:
            self._answer(archive.build(), "application/octet-stream")
        elif versions:
            self._answer(json.dumps(self._packument(versions)).encode(), "application/json")
        else:
            self.send_error(404)

    def _packument(self, versions: list[Npm]) -> dict[str, Any]:
        host = self.headers["Host"]
        described = {
            each.version: {
                **each.document,
                "dist": {"tarball": f"http://{host}/{each.address}", "integrity": each.integrity},
            }
            for each in versions
        }
        latest = {"latest": versions[-1].version}
        return {"name": versions[0].name, "dist-tags": latest, "versions": described}

    def _answer(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class NpmWorld:
    """A small world whose image has packages of npm, from a registry on loopback."""

    def __init__(
        self, root: Path, port: int, registry: type[NpmRegistry], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """npm uses no other registry, and no settings of this machine, for the length of a test."""
        self.world = World(root)
        self.registry = registry
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{port}/")
        monkeypatch.setenv("npm_config_cache", str(root / "npm-cache"))
        monkeypatch.setenv("npm_config_userconfig", os.devnull)
        monkeypatch.setenv("npm_config_globalconfig", str(root / "no-npmrc"))

    def define(self, text: str, definition: str = DEFINITION) -> Lock:
        """Write the definition, and a lock without packages of npm."""
        (self.world.images / "base/files").mkdir(parents=True, exist_ok=True)
        (self.world.images / "base" / LOCK_FILE).write_text(text)
        defined = self.world.define("base", definition, {LOCK_FILE: text})
        return self.world.lock(defined, self.world.packages())

    def lock(self, text: str) -> Lock:
        lock = self.define(text)
        found = with_npm(load_catalogue(self.world.images)["base"], lock, self.world.cache)
        write_lock(self.world.images / "base", found)
        return found

    def build(self, name: str) -> BuiltImage:
        """Build with an empty cache: npm downloads the packages of the lock."""
        self.world.cache = Cache(self.world.root / f"cache-{name}")
        return self.world.build("base", output=self.world.root / name, frozen=True)["base"]


@contextlib.contextmanager
def npm_world(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NpmWorld]:
    """A world with a registry that offers the packages above, for the length of a test."""
    registry = type("Registry", (NpmRegistry,), {"offered": list(OFFERED), "asked": []})
    with listening(registry) as port:
        yield NpmWorld(root, port, registry, monkeypatch)
