"""What `runspec setup azure-batch --set NAME=VALUE` understands."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from runspec_azure.batch.options import BatchOptions
from runspec_jobs.provider.settings import User, Word, text_like

NAME = r"^[a-z][a-z0-9]{0,11}$"
LOCATION = r"^[a-z][a-z0-9]+$"

Name = Annotated[str, *text_like(NAME, "a name", "write lower case letters and digits, at most 12")]
Location = Annotated[
    str, *text_like(LOCATION, "a location", "write it as az does, such as westeurope")
]


class BatchSetup(BatchOptions):
    """The settings of a profile, and what only a setup is told."""

    name: User[Name] = Field(default="runspec", description="How names of resources begin.")
    location: User[Location | None] = Field(
        default=None, description="The location of everything, such as westeurope."
    )
    account: User[Word | None] = Field(
        default=None, description="The name of the Batch account, instead of one that is made up."
    )
