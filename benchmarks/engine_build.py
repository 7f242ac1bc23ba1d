"""How fast Docker builds from a rendered Dockerfile, beside one that a person would write for the same image.

    python -m benchmarks.engine_build [--rounds N] [--output results.json] [--images build]

Both builds are of the same packages or files, on the same base, which is loaded before anything is timed;
neither may use what the daemon has kept of an earlier one. Ours is `sandwright build-images --engine docker`
as a command, which compares every package with the lock, before and in the build; theirs is `docker build` of
a directory, by the same builder. Both check checksums and write the list of packages for scanners; no person
would give files their times, or see to it that no two packages bring one file. Needs a daemon.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.harness import RESULTS, Contestant, compare, measure, record, table, write

from sandwright.host import collect_host
from sandwright.image.cache import Cache, default_cache
from sandwright.image.definition import load_catalogue
from sandwright.image.dockerfile.build import BuildRequest, render_context
from sandwright.image.dockerfile.context import DockerfileContext
from sandwright.image.fetcher import Fetcher
from sandwright.image.mirrors import find_mirrors
from sandwright.resources import data_path

TAG = "sandwright-benchmark"
PLATFORM = collect_host().platform
OURS = (sys.executable, "-P", "-c", "from sandwright.cli import main; main()")

DISTROLESS = r"""
FROM {builder} AS build
COPY SHA256SUMS /
COPY packages/ /packages/
COPY passwd group /etc-of-image/
RUN sha256sum --check --quiet SHA256SUMS \
 && mkdir -p /rootfs/usr/bin /rootfs/usr/sbin /rootfs/usr/lib /rootfs/usr/lib64 \
 && for name in bin sbin lib lib64; do ln -s "usr/$name" "/rootfs/$name"; done \
 && for package in /packages/*.deb; do \
        dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C /rootfs || exit 1; \
    done \
 && mv /rootfs/usr/bin/python3 /rootfs/usr/bin/python3.11 / \
 && rm -rf /rootfs/usr/bin/* /rootfs/usr/sbin/* /rootfs/usr/share/python3 /rootfs/usr/share/binfmts \
        /rootfs/usr/share/info /rootfs/usr/share/lintian /rootfs/usr/share/locale /rootfs/usr/share/man \
        /rootfs/usr/share/menu /rootfs/usr/share/applications /rootfs/usr/share/pixmaps \
        /rootfs/usr/share/bug /rootfs/etc/update-motd.d \
 && find /rootfs/usr/share/doc -type f ! -name copyright -delete \
 && mv /python3 /python3.11 /rootfs/usr/bin/ \
 && ln -s python3 /rootfs/usr/bin/python \
 && cp /etc-of-image/passwd /etc-of-image/group /rootfs/etc/ \
 && cp /rootfs/usr/share/libc-bin/nsswitch.conf /rootfs/etc/ \
 && mkdir -p /rootfs/etc/ssl/certs \
 && find /rootfs/usr/share/ca-certificates -name '*.crt' -exec cat {{}} + \
        > /rootfs/etc/ssl/certs/ca-certificates.crt \
 && ldconfig -r /rootfs \
 && mkdir -p /rootfs/var/lib/dpkg/status.d \
 && for package in /packages/*.deb; do \
        name=$(basename "$package") \
        && dpkg-deb --field "$package" > "/rootfs/var/lib/dpkg/status.d/${{name%%_*}}" || exit 1; \
    done \
 && install -d -m 0700 -o 65532 -g 65532 /rootfs/home/nonroot

FROM scratch
COPY --from=build /rootfs/ /
ENV LANG=C.UTF-8 SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
USER nonroot
WORKDIR /home/nonroot
CMD ["/usr/bin/python3"]
"""
WORKSPACE = r"""
FROM {base}
USER root
RUN echo 'agent:x:1000:1000:agent:/home/agent:/bin/bash' >> /etc/passwd \
 && echo 'agent:!::0:99999:7:::' >> /etc/shadow \
 && echo 'agent:x:1000:' >> /etc/group \
 && echo 'agent:!::' >> /etc/gshadow \
 && install -d -o agent -g agent /home/agent /workspace
COPY workspace-entrypoint /usr/local/bin/workspace-entrypoint
COPY gitconfig /etc/gitconfig
ENV GIT_TERMINAL_PROMPT=0 PAGER=cat PYTHONDONTWRITEBYTECODE=1
USER agent
WORKDIR /workspace
ENTRYPOINT ["/usr/local/bin/workspace-entrypoint"]
CMD ["/bin/bash"]
"""


def by_hand(name: str, context: DockerfileContext, wish: BuildRequest, place: Path) -> None:
    """Write the Dockerfile of a person, and its context, into a directory."""
    place.mkdir()
    bases = [line.split()[1] for line in context.dockerfile.splitlines() if line.startswith("FROM local")]
    if name == "distroless":
        (place / "packages").mkdir()
        for path, content in context.files.items():
            if path.startswith("work/packages/"):
                assert isinstance(content, Path)
                shutil.copyfile(content, place / path.removeprefix("work/"))
        for beside in ("passwd", "group", "SHA256SUMS"):
            content = context.files[f"work/{beside}"]
            assert isinstance(content, bytes)
            (place / beside).write_bytes(content)
        text = DISTROLESS.format(builder=bases[0])
    else:
        folder = wish.catalogue[name].folder
        (place / "workspace-entrypoint").write_bytes((folder / "files/workspace-entrypoint").read_bytes())
        (place / "workspace-entrypoint").chmod(0o755)
        (place / "gitconfig").write_text(
            "\n".join(str(each.content) for each in wish.catalogue[name].files[1:])
        )
        text = WORKSPACE.format(base=bases[0])
    (place / "Dockerfile").write_text(text.lstrip())


def main() -> None:
    """Prepare, compare, print, and write what was asked for."""
    options = _options()
    results = {}
    images = options.images.absolute()
    ours = partial(_ours, images)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program has its byte code
    os.environ["PYTHONPYCACHEPREFIX"] = os.fspath(images / "bytecode")
    for name in options.name or ("distroless", "workspace"):
        measure(ours(name), timeout=3600)  # everything that it is built on is there then
        with tempfile.TemporaryDirectory(prefix="sandwright-", dir=images) as scratch:
            supply = Fetcher(Cache(default_cache(os.environ)), lambda: find_mirrors(None, os.environ))
            wish = BuildRequest(
                load_catalogue(data_path("images")), [name], [PLATFORM], images, supply, frozen=True
            )
            place = Path(scratch) / "context"
            by_hand(name, render_context(wish, name, PLATFORM), wish, place)
            build = ["docker", "build", "--no-cache", "--network=none", "--tag", f"{TAG}:{name}", str(place)]
            theirs = ("sh", "-c", f"DOCKER_BUILDKIT=0 exec {shlex.join(build)}")
            contestants = [Contestant("by hand", theirs), Contestant("sandwright", ours(name))]
            taken = compare(contestants, rounds=options.rounds)
        measure(("docker", "rmi", f"{TAG}:{name}"))
        title = f"docker builds {name}, its base loaded"
        print(table(title, taken, reference="by hand"), flush=True)
        results[title] = record(taken)
    write(options.output, results)


def _ours(images: Path, name: str) -> tuple[str, ...]:
    words = ("build-images", "--engine", "docker", "--force", "--no-smoke", "--frozen")
    return (*OURS, *words, "--name", name, "--output", os.fspath(images))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Building with Docker, compared with Dockerfiles by hand.")
    parser.add_argument("--rounds", type=int, default=5, help="how often each builds")
    parser.add_argument("--name", action="append", choices=("distroless", "workspace"), help="only this one")
    parser.add_argument("--output", type=Path, default=RESULTS / "engine_build.json", help="where figures go")
    parser.add_argument("--images", type=Path, default=RESULTS.parent, help="where all images are built")
    return parser.parse_args()


if __name__ == "__main__":
    main()
