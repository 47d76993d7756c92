"""What the models of documents have in common."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# The state of a run: those of its job, and what `list` and `status` show when there is no such state.
RunState = Literal[
    "waiting",
    "running",
    "succeeded",
    "failed",
    "cancelled",
    "gone",
    "destroyed",
    "not-started",
    "unreadable",
]
Run = Annotated[str, Field(description="The full name of a run.")]
Reason = Annotated[
    str, Field(description="The reason for the state, for people; empty if there is none.")
]
Time = Annotated[float, Field(description="In seconds since 1970.")]
Code = Annotated[int | None, Field(description="The job's own exit code; null if it has none.")]


class Part(BaseModel):
    """The base class of all models here."""

    model_config = ConfigDict(defer_build=True)


class Document(Part):
    """The base class of the models of whole documents; each has a `format`."""
