"""Where the published schemas come from: the package's data in an installation, ``schemas/`` in a checkout.

They are the same files that readers of the protocol get; the code loads them and holds no copy. An operator can
register further profile extensions by a folder of their schemas (PCP §4.6); each is checked before the server starts.
"""

from __future__ import annotations

import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from zkpcp.core import extensions
from zkpcp.core.schemas import JsonObject, Schemas
from zkpcp.errors import CorruptError, UnavailableError

VERSIONS: Final = ("0.3",)
EXTENSIONS: Final = "extensions"
_SUFFIX: Final = ".schema.json"


def load_schemas(registered: Path | None = None) -> Schemas:
    """Read and compile every ``<version>/<name>.schema.json`` as ``<version>/<name>``, and so the extensions'.

    ``registered``: the operator's folder of further extensions, ``<namespace>.schema.json`` each. Raises
    UnavailableError when the installation has no schema files or a registered one breaks a rule, which is named with
    the file; CorruptError when one of ours is damaged.
    """
    root = _root()
    ours = {
        f"{folder}/{file.name.removesuffix(_SUFFIX)}": _read(file)
        for folder in (*VERSIONS, EXTENSIONS)
        for file in root.joinpath(folder).iterdir()
        if file.name.endswith(_SUFFIX)
    }
    return Schemas(ours | ({} if registered is None else _registered(registered)))


def _registered(folder: Path) -> dict[str, JsonObject]:
    try:
        files_there = sorted(file for file in folder.iterdir() if file.name.endswith(_SUFFIX))
        schemas = {file.name: _read(file) for file in files_there}
    except (OSError, UnicodeDecodeError) as error:
        raise UnavailableError("the folder of extension schemas cannot be read") from error
    found = {}
    for file_name, schema in schemas.items():
        namespace = file_name.removesuffix(_SUFFIX)
        rules = [*extensions.broken_registration_rules(namespace, schema)]
        if rules:
            raise UnavailableError(f"the extension schema {file_name} {'; '.join(rules)}")
        found[extensions.schema_name(namespace)] = schema
        _check_compiles(file_name, schema)
    return found


def _check_compiles(file_name: str, schema: JsonObject) -> None:
    try:
        Schemas({file_name: schema})
    except CorruptError:
        raise UnavailableError(f"the extension schema {file_name} is not a JSON Schema of draft 2020-12") from None


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
        raise UnavailableError(f"the schema file {file.name} is not a JSON object")
    return value
