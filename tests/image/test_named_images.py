"""Images that ship and are built only when somebody names them."""

from __future__ import annotations

import pytest

from sandwright.cli.image_arguments import catalogue_of
from sandwright.errors import UsageError
from sandwright.resources import data_path


def test_dev_is_there_for_who_names_it_only() -> None:
    assert "dev" not in catalogue_of("")
    assert {"dev", "proxy"} <= set(catalogue_of("", ["dev", "proxy"]))
    with pytest.raises(UsageError, match="there is no image 'dve'"):
        catalogue_of("", ["dve"])
    with pytest.raises(UsageError, match="there is no image 'dev'"):
        catalogue_of(str(data_path("images")), ["dev"])
