"""Where the published schemas come from: the package's data in an installation, ``schemas/`` in a checkout.

They are the same files that readers of the protocol get; the code loads them and holds no copy.
"""

from __future__ import annotations

import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from zkpcp.core.schemas import JsonObject, Schemas
from zkpcp.errors import UnavailableError

VERSIONS: Final = ("0.3",)
_SUFFIX: Final = ".schema.json"


def load_schemas() -> Schemas:
    """Read and compile every ``<version>/<name>.schema.json`` as ``<version>/<name>``.

    Raises UnavailableError when the installation has no schema files, CorruptError when one is damaged.
    """
    root = _root()
    return Schemas(
        {
            f"{version}/{file.name.removesuffix(_SUFFIX)}": _read(file)
            for version in VERSIONS
            for file in root.joinpath(version).iterdir()
            if file.name.endswith(_SUFFIX)
        }
    )


def _root() -> Traversable:
    packaged = files("zkpcp").joinpath("_schemas")
    if packaged.is_dir():
        return packaged
    checkout = Path(__file__).resolve().parent.parent / "schemas"
    if checkout.joinpath(VERSIONS[0]).is_dir():
        return checkout
    raise UnavailableError("the schema files are missing from this installation")


def _read(file: Traversable) -> JsonObject:
    try:
        value = json.loads(file.read_text("utf-8"))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UnavailableError("a schema file of this installation is not a JSON object")
    return value
