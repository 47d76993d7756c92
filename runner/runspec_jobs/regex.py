"""Regular expressions that are compiled when they are first used, because most commands use few of them."""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast


class _Lazy:
    """Stands for a compiled expression, and has the methods of one that were used."""

    def __init__(self, pattern: str | bytes, flags: re.RegexFlag) -> None:
        self._compiled_from: Any = pattern, flags

    def __getattr__(self, name: str) -> Any:
        method = getattr(re.compile(*self._compiled_from), name)
        setattr(self, name, method)
        return method


def regex(pattern: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[AnyStr]:
    """Return what does all that `re.compile` of these arguments would do, but is no argument of functions of `re`."""
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))
