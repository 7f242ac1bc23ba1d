"""A small world with an image of Python packages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandwright.image.build import BuiltImage, build_images
from sandwright.image.cache import Cache
from sandwright.image.definition import load_catalogue
from sandwright.image.fetcher import Fetcher
from sandwright.image.lock import Lock, write_lock
from sandwright.image.pip import with_wheels
from support.debs import Member, deb, folder
from support.smallworld import BASE, World
from support.wheels import NATIVE, Wheel

SITE = "usr/local/lib/python3.11/dist-packages"
TOOL = Wheel(
    "Some.Tool",
    files={"tool/__init__.py": "def main():\n    print('ran')\n", "tool/data.txt": "data\n"},
    requires=("native>=1",),
    programs="[console_scripts]\ntool = tool:main\n",
)
DEFINITION = BASE.replace("smoke:", "languages: {pip: files/requirements.txt}\nsmoke:")


def native(platform: str) -> Wheel:
    return Wheel("native", tag=NATIVE[platform], files={"native.so": platform})


class PythonWorld:
    """A small world with Python in its packages, and an index of wheels for pip."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """pip uses no other index, and no settings of this machine, for the length of a test."""
        self.world = World(root)
        self.index = root / "index"
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(self.index))
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        self.lines = [TOOL.write(self.index), *(native(each).write(self.index) for each in NATIVE)]

    @property
    def requirements(self) -> str:
        """The two wheels of `native` are one requirement with two hashes."""
        tool, amd64, arm64 = self.lines
        return f"{tool}{amd64.strip()} {arm64.split()[1]}\n"

    def define(self, requirements: str | None = None, text: str = DEFINITION) -> Lock:
        """Write the definition, and a lock without wheels."""
        files = {"files/requirements.txt": self.requirements if requirements is None else requirements}
        (self.world.images / "base/files").mkdir(parents=True, exist_ok=True)
        (self.world.images / "base/files/requirements.txt").write_text(files["files/requirements.txt"])
        definition = self.world.define("base", text, files)
        packages = self.world.packages()
        for platform, listed in packages.items():
            architecture = platform.partition("/")[2]
            for name, version in (("libpython3.11-minimal", "3.11.2-6"), ("libc6", "2.36-9+deb12u14")):
                raw = deb(
                    [folder("./"), Member(f"./{name}", "x")],
                    name=name,
                    version=version,
                    architecture=architecture,
                )
                listed.append(self.world.offer(raw, name=name, version=version, architecture=architecture))
        return self.world.lock(definition, packages)

    def lock(self, requirements: str | None = None) -> Lock:
        lock = self.define(requirements)
        found = with_wheels(load_catalogue(self.world.images)["base"], lock, self.world.cache)
        write_lock(self.world.images / "base", found)
        return found

    def build(self, name: str) -> BuiltImage:
        """Build with an empty cache: pip downloads the wheels of the lock."""
        supply = Fetcher(Cache(self.world.root / f"cache-{name}"), self.world.mirrors)
        output = self.world.root / name
        return build_images(load_catalogue(self.world.images), output=output, supply=supply, frozen=True)[0]
