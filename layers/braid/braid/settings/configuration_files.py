"""Reads JSON files of configuration, such as that of the fusion parameters; an error names the file and the field."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from braid.errors import ConfigurationError, plainly
from braid.models import Frozen, FusionParameters
from braid.models.embedding_models import Profiles

if TYPE_CHECKING:
    from pathlib import Path

    from braid.settings import Settings


_Model = TypeVar("_Model", bound=BaseModel)


def read_config(model: type[_Model], path: Path, *, where: str) -> _Model:
    """Read a JSON file.

    Raises ConfigurationError if it cannot be read or is malformed; the message names the file and the field.

    Parameters
    ----------
    where
        Ends the message of an error: the setting that names the file or its folder.
    """
    try:
        return model.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror}); {where}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{path}: {field + ': ' if field else ''}{plainly(first)}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not JSON ({error})") from error


def load_profiles(shared_dir: Path) -> Profiles:
    """Read ``models/profiles.json``.

    Raises ConfigurationError if the file is missing or malformed; the message names the file and the field.
    """
    return read_config(Profiles, shared_dir / "models" / "profiles.json", where="BRAID_SHARED_DIR names its folder")


FITTED_FILE = "fitted.json"


class FittedFile(Frozen):
    """Schema of the file that `braid tune` writes."""

    parameters: FusionParameters
    evidence: dict[str, Any] = Field(default_factory=dict)
    """The questions on which they were fitted, and their effect on held-out ones."""


@dataclass(frozen=True)
class Fitted:
    """The fusion parameters in use, and their file."""

    parameters: FusionParameters
    path: Path | None = None
    """The file; None if there is none."""

    @cached_property
    def digest(self) -> str:
        """Hash of the parameters, as sixteen hexadecimal digits: part of the cache keys of answers."""
        text = json.dumps(self.parameters.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def load_fitted(settings: Settings) -> Fitted:
    """Return the fusion parameters of the file and the settings.

    ``BRAID_FITTED_WEIGHTS`` names the file; otherwise it is ``fitted.json`` in the home, else in ``models`` of the
    shared folder, where a deployment has it. ``BRAID_LEXICAL_SHARE`` and ``BRAID_RANK_CONSTANT`` override the file.

    Raises ConfigurationError if a file that was named is missing, or any is malformed; the message names the file and
    the field.
    """
    path = find_fitted(settings)
    parameters = FusionParameters() if path is None else read_fitted(path).parameters
    stated = {
        name: value
        for name, value in (("lexical_share", settings.lexical_share), ("rank_constant", settings.rank_constant))
        if value is not None
    }
    return Fitted(parameters.altered(**stated), path)


def find_fitted(settings: Settings) -> Path | None:
    """Return the file of the fusion parameters; None if there is none."""
    if settings.fitted_weights is not None:
        return settings.fitted_weights
    places = (settings.home / FITTED_FILE, settings.shared_dir / "models" / FITTED_FILE)
    return next((place for place in places if place.is_file()), None)


def read_fitted(path: Path) -> FittedFile:
    """Read a file of fitted parameters.

    Raises ConfigurationError if it cannot be read or is malformed; the message names the file and the field.
    """
    return read_config(FittedFile, path, where="BRAID_FITTED_WEIGHTS names it, or it lies in BRAID_HOME")
