"""The library of `oci-runtime-tool validate` finds no fault in our bundles, but finds those of worse ones."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from sandwright import process
from sandwright.rootfs.bundles.bundle import write_bundle
from sandwright.rootfs.bundles.convert import BundleOptions
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.minimal.minimal import MinimalOptions, write_minimal_bundle
from support import gotools, layouts, tars
from support.goldens import GOLDEN
from support.layouts import HELLO
from support.thorough import THOROUGH

pytestmark = [
    pytest.mark.skipif(not THOROUGH, reason="only `invoke test --thorough` has time to build the tools"),
    pytest.mark.timeout(3000),
    pytest.mark.needs("busybox"),
]

RUNTIME_SPEC = "github.com/opencontainers/runtime-spec@v1.0.2"
"""The version in our bundles."""

CONFIG = {"Env": ["A=b"], "User": "app", "Volumes": {"/data": {}}, "Labels": {"com.example.label": "a label"}}
WRONGLY = ('key "org.opencontainers.image.', 'unsupported mount type "none"')
"""The settings that it refuses although the specifications require or name them.

Image-spec, conversion.md: these annotations MUST be set. Runtime-spec, config.md: the type of bind mounts is
a dummy, often "none".
"""


def _faults(bundle: Path) -> list[str]:
    schema = gotools.downloaded(RUNTIME_SPEC) / "schema/config-schema.json"
    said = process.run(gotools.require("bundlevalidator"), schema, bundle, timeout=60)
    lines = said.text.splitlines()
    return [each for each in lines if not each.startswith((*WRONGLY, "Refer to: "))]


@pytest.mark.parametrize(
    "rootless",
    [pytest.param(False, marks=pytest.mark.skipif(os.geteuid() != 0, reason="for root")), True],
    ids=["root", "rootless"],
)
@pytest.mark.parametrize("kind", ["plain", "writable", "init", "minimal"])
def test_bundles(tmp_path: Path, kind: str, rootless: bool) -> None:
    shell = tars.file(b"bin/sh", Path("/bin/busybox").read_bytes(), mode=0o755)
    more = tars.archive(tars.folder(b"data"), shell)
    source = open_image(layouts.simple(tmp_path / "image", HELLO, more, config=CONFIG))
    place, store = tmp_path / "bundle", tmp_path / "store"
    own = BundleOptions(
        command=("/bin/hello",),
        writable=kind == "writable",
        embed_root=True,
        capabilities="init" if kind == "init" else "none",
    )
    if kind == "minimal":
        wanted = MinimalOptions(("/bin/hello",))
        write_minimal_bundle(source, place, wanted, store=store, settings=own, rootless=rootless)
    else:
        write_bundle(source, place, store=store, settings=own, rootless=rootless)
    assert _faults(place) == []


@pytest.mark.parametrize("config", sorted(GOLDEN.glob("*/*/config.json")), ids=lambda path: path.parts[-3:-1])
def test_bundles_of_methods(tmp_path: Path, config: Path) -> None:
    """They have an empty root in place of their own."""
    document = json.loads(config.read_text())
    document["root"]["path"] = "rootfs"
    (tmp_path / "rootfs").mkdir()
    (tmp_path / "config.json").write_text(json.dumps(document))
    assert _faults(tmp_path) == []


def test_faults_are_found(tmp_path: Path) -> None:
    source = open_image(layouts.simple(tmp_path / "image", config=CONFIG | {"Volumes": {}}))
    shared = write_bundle(source, tmp_path / "shared", store=tmp_path / "store", command=["/bin/hello"])
    assert any("but it MUST be a child of" in each for each in _faults(shared.path)), "bundles share a root"
    made = shutil.copytree(shared.path, tmp_path / "made")
    (made / "rootfs").mkdir()
    document = json.loads((made / "config.json").read_text())
    document["root"]["path"] = "rootfs"
    document["process"] |= {"cwd": "relative", "capabilities": {"bounding": ["CAP_ALL"]}}
    (made / "config.json").write_text(json.dumps(document | {"linux": {"namespaces": [{"type": "wall"}]}}))
    found = "\n".join(_faults(made))
    assert all(each in found for each in ("linux.namespaces.0.type", "CAP_ALL", "relative")), found
