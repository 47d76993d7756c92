"""The promises of `runspec_jobs.provider` as tests that every provider can be asked, by whoever wrote it.

Subclass `ProviderContract` in a test module, give a fixture `world`, and run pytest; see
docs/provider.md. The core never imports this: pytest and hypothesis are the tests' own.
"""

from __future__ import annotations

import pytest

# Plain asserts then say what differs, as in a test module; before the modules are imported.
pytest.register_assert_rewrite(
    *(
        f"runspec_jobs.testing.{name}"
        for name in (
            "contract",
            "adopting",
            "client",
            "entering",
            "following",
            "machines",
            "stopping",
            "promises",
        )
    )
)

from runspec_jobs.testing.contract import ProviderContract as ProviderContract  # noqa: E402 - see above
from runspec_jobs.testing.faults import (  # noqa: E402
    FAULTS as FAULTS,
    Flaky as Flaky,
    LightsOut as LightsOut,
    Recorder as Recorder,
    Send as Send,
    Strike as Strike,
)
from runspec_jobs.testing.strategies import specs as specs  # noqa: E402
from runspec_jobs.testing.trial import Trial as Trial, token as token  # noqa: E402
from runspec_jobs.testing.world import EXAMPLES as EXAMPLES, World as World  # noqa: E402
