"""Images with `config.init` to start: an Alpine-like one, and one on distroless, built by our own builder."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from sandwright import process
from sandwright.host import collect_host
from sandwright.image import init
from sandwright.image.build import build_images
from sandwright.image.cache import Cache, default_cache
from sandwright.image.definition import load_catalogue
from sandwright.image.documents import INIT
from sandwright.image.fetcher import Fetcher
from sandwright.image.layout import LAYOUT_FILE
from sandwright.image.mirrors import find_mirrors
from sandwright.resources import data_path
from support import alpinelike
from support.layouts import INDEX, REF, Layout
from support.tars import archive, file, folder, symlink

PASSWD = (
    alpinelike.PASSWD
    + b"agent2:x:1001:1001::/home/agent2:/bin/sh\nagent:x:1000:1000:Agent,,,:/home/agent:/bin/sh"
)
"""A name that is the prefix of another, and no line feed at the end."""
GROUP = alpinelike.GROUP + b"agent:x:1000:\n"

ON_DISTROLESS = """\
schema: 1
description: distroless for whoever starts it.
base: {image: distroless}
accounts:
  users: [{name: agent, uid: 1000, gid: 1000, home: /home/agent}]
  groups: [{name: agent, gid: 1000}, {name: dialout, gid: 20}]
directories: [{path: /home/agent, mode: "0700", user: agent, group: agent}]
files: [{path: /home/agent/.profile, content: "", user: agent, group: agent}]
config: {user: root, init: agent}
"""


def alpine_like(directory: Path, *, program: bytes | None = None) -> Path:
    """The layout of an Alpine-like image, written without the builder.

    Its busybox is Debian's: a build of one that can add accounts, which nothing here needs, takes half a
    minute. `program` replaces our first process.
    """
    platform = collect_host().platform
    places = [folder(name) for name in (b"bin", b"dev", b"etc", b"home", b"proc", b"sys", b"usr")]
    links = [symlink(f"bin/{name}".encode(), b"busybox") for name in ("cat", "id", "sh")]
    layers = [
        archive(
            *places,
            folder(b"root", mode=0o700),
            folder(b"tmp", mode=0o1777),
            file(b"bin/busybox", Path(process.which("busybox")).read_bytes(), mode=0o755),
            *links,
            file(b"etc/shadow", alpinelike.SHADOW, mode=0o640),
        ),
        archive(
            folder(b"usr/libexec"),
            file(INIT[1:].encode(), program or init.program(platform), mode=0o755),
            file(b"etc/passwd", PASSWD),
            file(b"etc/group", GROUP),
            folder(b"home/agent", mode=0o700, uid=1000, gid=1000),
            file(b"home/agent/.profile", b"", uid=1000, gid=1000),
            folder(b"workspace", mode=0o777),
        ),
    ]
    config = {
        "User": "root",
        "Env": ["PATH=/bin:/usr/bin"],
        "Entrypoint": [INIT, "agent"],
        "Cmd": ["/bin/sh"],
    }
    made = Layout(directory)
    arch = platform.partition("/")[2]
    steps = {"history": [{"created_by": "test"}] * len(layers)}
    image = made.image(*layers, config=config, arch=arch, change_config=steps)
    image["platform"] = {"os": "linux", "architecture": arch}
    whole = made.document({"schemaVersion": 2, "mediaType": INDEX, "manifests": [image]}, INDEX)
    whole["annotations"] = {REF: "latest"}
    (directory / "oci-layout").write_bytes(LAYOUT_FILE)
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [whole]}))
    return directory


def on_distroless(directory: Path) -> Path:
    """The layout of an image on distroless, built from the cached packages."""
    catalogue = directory / "catalogue"
    shutil.copytree(data_path("images", "distroless"), catalogue / "distroless")
    (catalogue / "mapped").mkdir()
    (catalogue / "mapped" / "image.yaml").write_text(ON_DISTROLESS)
    supply = Fetcher(Cache(default_cache(os.environ)), lambda: find_mirrors(None, os.environ))
    platforms = [collect_host().platform]
    build_images(
        load_catalogue(catalogue), ["mapped"], output=directory / "build", supply=supply, platforms=platforms
    )
    return directory / "build" / "images" / "mapped"
