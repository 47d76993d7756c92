"""The contract of `runspec_jobs.provider` as tests, which the author of any provider can run.

Subclass `ProviderContract` in a test module, define a fixture `world`, and run pytest; see
docs/provider.md. The core never imports this package, which needs pytest and hypothesis.
"""

from __future__ import annotations

import pytest

# Must precede the imports: it makes the asserts in these modules show what differs, as in a test module.
pytest.register_assert_rewrite(
    *(f"runspec_jobs.testing.{name}" for name in ("contract", "contracts", "promises"))
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
