r"""The one Jinja environment: nothing reaches a template unquoted.

A template writes a value through the filter of the language it stands in: `{{ path | sbpl }}`,
`{{ word | sh }}`. A value that went through none is refused when the template is rendered, and so is a name
that isn't there. Jinja's defaults would render the first as it is, so that `x") (allow default) ("` becomes a
rule, and the second as nothing.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from sandwright.errors import RenderError
from sandwright.render.quoting import Quoted, plain_number, quote_lines, quote_shell
from sandwright.resources import Room, data_path
from sandwright.visible import visible


def render_template(room: Room, name: str, /, **values: Any) -> str:  # noqa: ANN401 - any value
    """Render a shipped template. `name` is its path in the room: `base.sb.j2`.

    Raise RenderError when it uses a name that isn't given, or a value without quoting it.
    """
    try:
        return _jinja_environment(room).get_template(name).render(values)
    except jinja2.TemplateError as error:
        raise RenderError(f"{room}/{name}: {error}") from error


def render_page(folder: Path, name: str, /, **values: Any) -> str:  # noqa: ANN401 - likewise
    """Render a template of HTML in one of our own directories.

    Every value is escaped, and `visible` escapes characters that a browser would interpret or hide. Our own
    markup is passed as `Markup`. Raise RenderError for a name that isn't given.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup | jinja2.Undefined) else visible(str(value)),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    try:
        return environment.get_template(name).render(values)
    except jinja2.TemplateError as error:
        raise RenderError(f"{name}: {error}") from error


def add_filter(name: str, quote: Callable[[object], Quoted]) -> None:
    """Make a quoting function a filter of all templates; for modules that know a language, at import.

    Raise ValueError for a name that another function has, here or in Jinja: templates that mean the one would
    be rendered by the other, from the moment on at which both modules are imported.
    """
    if _FILTERS.get(name, jinja2.filters.FILTERS.get(name, quote)) is not quote:
        raise ValueError(f"the filter {name!r} exists already, and quotes otherwise")
    _FILTERS[name] = quote
    _jinja_environment.cache_clear()


_FILTERS: dict[str, Callable[[object], Quoted]] = {
    "sh": quote_shell,
    "lines": quote_lines,
    "number": plain_number,
}


def _finalize(value: object) -> object:
    if isinstance(value, Quoted | jinja2.Undefined):
        return value  # an undefined one raises when it is turned into text
    raise RenderError(f"a template uses {value!r} without quoting it")


class _Compiled(jinja2.FileSystemBytecodeCache):
    """Compiled templates, beside the compiled form of this module: compiling costs more than rendering.

    Loading the cache runs code, so it lies where only a process that can already change this program may
    write; no other shared or user's directory has that property. Where this process may not write, or must
    write no bytecode, there is no cache.
    """

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        """Keep a template, if that can be."""
        if not sys.dont_write_bytecode:
            with contextlib.suppress(OSError):
                super().dump_bytecode(bucket)


def _bytecode_cache() -> _Compiled | None:
    """The cache of earlier runs; none where Python caches no bytecode of this module."""
    folder = Path(cache_from_source(__file__)).parent
    if not folder.is_dir():
        return None
    return _Compiled(str(folder), f"templates-{_FORM}-{jinja2.__version__}-%s.cache")


_FORM = 1
"""Increase it when the options below change: the cached code depends on them."""


@functools.cache
def _jinja_environment(room: Room) -> jinja2.Environment:
    environment = jinja2.Environment(  # noqa: S701 - no HTML here; `finalize` refuses unquoted values
        loader=jinja2.FileSystemLoader(data_path(room)),
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        optimized=False,  # no filter runs when a template is compiled, so the cached code depends on none
        bytecode_cache=_bytecode_cache(),
    )
    environment.filters.update(_FILTERS)
    return environment
