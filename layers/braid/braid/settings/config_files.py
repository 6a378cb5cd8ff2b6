"""Reads JSON files of configuration; an error names the file and the field."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ValidationError

from braid.errors import ConfigurationError, plainly
from braid.models.model_profiles import Profiles

if TYPE_CHECKING:
    from pathlib import Path

_Model = TypeVar("_Model", bound=BaseModel)


def read_config(model: type[_Model], path: Path, *, where: str) -> _Model:
    """Read a JSON file.

    Parameters
    ----------
    where
        Ends the message of an error: the setting that names the file or its folder.

    Raises
    ------
    ConfigurationError
        If it cannot be read or is malformed; the message names the file and the field.
    """
    try:
        return model.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror}); {where}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{path}: {field + ': ' if field else ''}{plainly(first)}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path}: not JSON ({error})") from error


def load_profiles(shared_dir: Path) -> Profiles:
    """Read ``models/profiles.json``.

    Raises
    ------
    ConfigurationError
        If the file is missing or malformed; the message names the file and the field.
    """
    return read_config(Profiles, shared_dir / "models" / "profiles.json", where="BRAID_SHARED_DIR names its folder")
