"""Whatever AWS may answer by its own description, our client does not crash, and takes nothing for what it is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.drawn.aws_arrays import ARRAYS
from tests.drawn.aws_cases import CASES
from tests.drawn.aws_judge import Region, examples, region
from tests.drawn.aws_uploads import UPLOADS
from tests.drawn.drawing import COUNT, tried

pytestmark = pytest.mark.slow
ALL = {**CASES, **UPLOADS, **ARRAYS}


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    folder = tmp_path_factory.mktemp("drawn")
    with pytest.MonkeyPatch.context() as patch, region(patch, folder) as found:
        yield found


@pytest.mark.parametrize("name", ALL)
def test_whatever_an_operation_answers_the_client_is_right_about_it(
    account: Region, name: str
) -> None:
    case = ALL[name]

    count = tried(name, examples(case), lambda example: account.judge(case, example))

    assert count >= COUNT
