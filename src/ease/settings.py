"""The base of every section of a run's configuration."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ease.errors import ConfigError


class Settings(BaseModel):
    """Unknown keys, NaN, infinities and wrong types are refused; values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


S = TypeVar("S", bound=Settings)


def checked(kind: type[S], **values: Any) -> S:
    """Build settings from a caller's own values; what is wrong with them is a ConfigError."""
    try:
        return kind(**values)
    except ValidationError as error:
        raise ConfigError(explain(error)) from None


def explain(error: ValidationError, key: str | None = None) -> str:
    """The first mistake in one line: the key, what is wrong with it, and what was given.

    `key` replaces pydantic's own name of the place.
    """
    first = error.errors()[0]
    if key is None:
        key = ".".join(map(str, first["loc"]))
    message = first["msg"].removeprefix("Value error, ")
    given = "" if isinstance(first["input"], dict) else f" (got {first['input']!r})"
    return f"{key}: {message}{given}" if key else message
