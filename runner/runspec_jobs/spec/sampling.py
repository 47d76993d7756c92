"""Random draws that are the same on every machine and with every version of Python, to the last digit.

`random` promises that for some of its functions only, and the logarithms of C libraries differ in their last bits. So
the bits come out of SHA-256, and everything up to the nearest double is decimal arithmetic, whose `exp` and `ln` are
correctly rounded: https://docs.python.org/3/library/decimal.html#decimal.Decimal.exp
"""

from __future__ import annotations

import decimal
import hashlib
from contextlib import AbstractContextManager

BITS = 64
DIGITS = 60  # far more than a double has, so that the last step is the only one that rounds


class Draw:
    """What is drawn for one parameter in one trial: of *seed*, *trial* and *name*, and of nothing else.

    So another parameter, or more trials, leave what was drawn as it is.
    """

    def __init__(self, seed: int, trial: int, name: str) -> None:
        self.text = f"runspec-draw/v1 {seed} {trial} {name}"

    def bits(self, again: int = 0) -> int:
        """Give 64 bits: the first eight bytes of a SHA-256, the highest first."""
        digest = hashlib.sha256(f"{self.text} {again}".encode()).digest()
        return int.from_bytes(digest[: BITS // 8], "big")

    def below(self, count: int) -> int:
        """Give a whole number from 0 to *count* - 1, each as likely as any other."""
        fair, again = (1 << BITS) // count * count, 0
        while (found := self.bits(again)) >= fair:
            again += 1
        return found % count

    def integer(self, low: int, high: int) -> str:
        """Give a whole number from *low* to *high*, both among them."""
        return str(low + self.below(high - low + 1))

    def uniform(self, low: str, high: str) -> str:
        """Give a number from *low* to *high*, of which every part of equal length is as likely.

        >>> Draw(7, 0, "dropout").uniform("0", "0.5")
        '0.3825583576400199'
        """
        ends = decimal.Decimal(low), decimal.Decimal(high)
        with _context():
            return _text(self._between(*ends), *ends)

    def log_uniform(self, low: str, high: str) -> str:
        """Give a number from *low* to *high*, both above 0, each of whose magnitudes is as likely.

        >>> Draw(7, 0, "lr").log_uniform("1e-5", "1e-1")
        '0.0021335274662541105'
        """
        ends = decimal.Decimal(low), decimal.Decimal(high)
        with _context():
            return _text(self._between(ends[0].ln(), ends[1].ln()).exp(), *ends)

    def _between(self, low: decimal.Decimal, high: decimal.Decimal) -> decimal.Decimal:
        return low + (high - low) * self.bits() / (1 << BITS)


def _context() -> AbstractContextManager[decimal.Context]:
    return decimal.localcontext(decimal.Context(prec=DIGITS, rounding=decimal.ROUND_HALF_EVEN))


def _text(number: decimal.Decimal, low: decimal.Decimal, high: decimal.Decimal) -> str:
    """Give the shortest text that reads as the double nearest to *number*; no last digit takes it beyond its ends."""
    return repr(float(min(max(number, low), high)))
