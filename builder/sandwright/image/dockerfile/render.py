r"""Renders the Dockerfile of an image from its definition and lock. Pure.

The language: the Dockerfile reference, and moby's parser, which Buildah's follows. A value is written in
double quotes, in which `\`, `"` and `$` are escaped, or as a JSON array; a value that neither can hold is
refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sandwright.errors import BuildError, RenderError
from sandwright.image.declared import ORDER
from sandwright.image.definition import ImageDefinition
from sandwright.image.documents import architecture, entrypoint
from sandwright.image.sections import Config
from sandwright.render.quoting import Quoted
from sandwright.render.templates import add_filter, render_template

MERGED = ("bin", "sbin", "lib")
MORE_MERGED: Mapping[str, tuple[str, ...]] = {"amd64": ("lib64",), "arm64": ()}
"""More links into /usr that Debian's root has on an architecture."""

LABELS = "org.opencontainers.image."
"""The prefix of the labels that identify the image (image-spec, annotations.md)."""

_TOKEN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@+%~-]*")


@dataclass(frozen=True)
class Recipe:
    """The values that a Dockerfile is rendered from, beside the definition.

    `builder` is the image that the first stages run on, `base` that of a derived image; both as `FROM` takes
    them. `config` is the resulting default of containers, with the base's settings. `checksums` is the
    SHA-256 of the file with the packages' checksums. `additions` describes the added files, a line each.
    `user` is the user that the definition sets.
    """

    platform: str
    epoch: int
    builder: str
    base: str | None
    config: Config
    checksums: str = ""
    additions: Sequence[str] = ()
    user: str | None = None


def render_dockerfile(definition: ImageDefinition, recipe: Recipe) -> str:
    """The Dockerfile. Raise BuildError for a definition that no Dockerfile can express."""
    kind = _template_kind(definition)
    if definition.distribution == "alpine":
        raise BuildError(f"cannot write image '{definition.name}' as a Dockerfile: its packages are Alpine's")
    if definition.languages.files:
        raise BuildError(f"cannot write image '{definition.name}' as a Dockerfile: it has languages")
    if "alternatives" in definition.declare:
        raise BuildError(f"cannot write image '{definition.name}' as a Dockerfile: it declares alternatives")
    merged = (*MERGED, *MORE_MERGED[architecture(recipe.platform)]) if kind == "scripts" else MERGED
    try:
        return render_template(
            "images",
            f"engine/{kind}.Dockerfile.j2",
            title=definition.name,
            description=definition.description,
            platform=recipe.platform,
            epoch=recipe.epoch,
            builder=recipe.builder,
            base=recipe.base,
            checksums=recipe.checksums,
            merged=merged if kind == "scripts" or "merged-usr" in definition.declare else (),
            declared=[name for name in ORDER if name in definition.declare and name != "merged-usr"],
            accounts=adds_accounts(definition),
            additions=recipe.additions,
            **_container_settings(definition, recipe.config, recipe.user),
        )
    except RenderError as error:
        raise BuildError(f"cannot write image '{definition.name}' as a Dockerfile: {error}") from error


def adds_accounts(definition: ImageDefinition) -> bool:
    """Whether accounts are added to those that the base or the packages bring."""
    listed = definition.accounts
    return "accounts" not in definition.declare and bool(listed.users or listed.groups)


def _template_kind(definition: ImageDefinition) -> str:
    if definition.suite is None:
        return "derived"
    return "scripts" if definition.configure == "scripts" else "packages"


def _container_settings(definition: ImageDefinition, whole: Config, user: str | None) -> dict[str, object]:
    """The defaults of containers; absent settings stay the base's, as in the embedded builder.

    ENTRYPOINT drops the command of the base, so where it stands, CMD does.
    """
    config = definition.config
    in_front = config.entrypoint is not None or config.init is not None
    return {
        "labels": [
            (f"{LABELS}title", definition.name),
            (f"{LABELS}description", definition.description),
            *config.labels.items(),
        ],
        "environment": sorted(config.environment.items()),
        "user": user,
        "workdir": config.workdir,
        "stop_signal": config.stop_signal,
        "ports": config.ports,
        "volumes": config.volumes,
        "healthcheck": config.healthcheck,
        "entrypoint": entrypoint(whole) if in_front else None,
        "command": whole.command or () if in_front else config.command,
    }


def quote_word(value: object) -> Quoted:
    """A value in double quotes. Raise RenderError for a line break, which ends an instruction."""
    text = str(value)
    if re.search(r"[\0\r\n]", text):
        raise RenderError(f"{text!r} holds a line break or a NUL byte")
    return Quoted('"' + re.sub(r'([\\"$])', r"\\\1", text) + '"')


def quote_words(values: Iterable[object]) -> Quoted:
    """Words as the JSON array of the exec form, in which nothing is expanded."""
    return Quoted(json.dumps([str(value) for value in values], ensure_ascii=False))


def plain_token(value: object) -> Quoted:
    """A name that means itself: a reference, an account, a digest. Raise RenderError for anything else."""
    text = str(value)
    if not _TOKEN.fullmatch(text):
        raise RenderError(f"{text!r} is no plain name")
    return Quoted(text)


def quote_comment(value: object) -> Quoted:
    """Text for a line of comment."""
    return Quoted(re.sub(r"[\x00-\x1f\x7f\x85\u2028\u2029]", " ", str(value)))


for _name, _quote in {
    "docker_word": quote_word,
    "exec_form": quote_words,
    "docker_name": plain_token,
    "docker_comment": quote_comment,
}.items():
    add_filter(_name, _quote)  # type: ignore[arg-type]  # `exec_form` is given a list
