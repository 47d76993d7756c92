"""A module that is imported when something of it is used for the first time."""

import sys
from typing import Any


class LazyModule:
    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        __import__(self.__name__)
        return getattr(sys.modules[self.__name__], name)
