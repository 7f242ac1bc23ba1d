"""An image that trusts a private certificate authority (CA), as docs/images.md defines it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sandwright import process
from sandwright.rootfs.images.source import open_image
from sandwright.rootfs.unpacking.unpack import unpack
from support.registryserver import make_certificates
from support.smallworld import small_world

DOCS = Path(__file__).parents[2] / "docs/images.md"


@pytest.mark.needs("openssl")
def test_openssl_finds_the_authority(tmp_path: Path) -> None:
    """The link has the name that `openssl rehash` gives it, and leads to the certificate."""
    (text,) = re.findall(r"```yaml\n(schema: 1\n[^`]*?own-ca\.crt[^`]*)```", DOCS.read_text())
    authority = make_certificates(tmp_path / "certificates").authority
    hashed = process.run("openssl", "x509", "-noout", "-hash", "-in", authority).text.strip()
    text = text.replace("image: web", "image: app").replace("user: agent", "user: app")
    world = small_world(tmp_path / "world")
    world.define("own", text.replace("14cecdc1", hashed), {"files/own-ca.crt": authority.read_text()})
    built = world.build("own", platforms=["linux/amd64"])["own"]
    unpack(open_image(built.layout, platform="linux/amd64").layers, tmp_path / "root")
    certificates = tmp_path / "root/etc/ssl/certs"
    leads = (certificates / f"{hashed}.0").readlink()
    assert (tmp_path / "root" / leads.relative_to("/")).read_bytes() == authority.read_bytes()
    before = {path.name for path in certificates.iterdir()}
    (certificates / f"{hashed}.0").unlink()
    (certificates / "own-ca.pem").write_bytes(authority.read_bytes())
    process.run("openssl", "rehash", certificates)
    assert before < {path.name for path in certificates.iterdir()}
