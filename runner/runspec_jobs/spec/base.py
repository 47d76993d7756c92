"""The base of every model that takes in what strangers have written."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """The base of every model: frozen, and a key it does not know is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
