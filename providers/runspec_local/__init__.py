"""The local provider: a job on this machine, as containers or as process groups."""

from __future__ import annotations

from runspec_agent.base.light_typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runspec_local.provider import PROVIDER as PROVIDER


def __getattr__(name: str) -> Any:
    """Load the provider on first access, because the supervisor imports this package without pydantic."""
    if name == "PROVIDER":
        from runspec_local.provider import PROVIDER

        return PROVIDER
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
