"""Loads objects that a table names as "module:name", when they are first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load(where: str, package: str | None = None) -> Any:  # noqa: ANN401 - any object
    """The object that "module:name" names, or the module itself where no name is given.

    The module is relative to `package` where it begins with a dot.
    """
    module, _, name = where.partition(":")
    loaded = import_module(module.strip(), package)
    return getattr(loaded, name.strip()) if name else loaded
