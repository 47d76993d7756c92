"""Random draws that are the same on every machine and with every version of Python, to the last digit.

`random` promises this for only some of its functions, and the logarithms of C libraries differ in their last bits.
Therefore the random bits are SHA-256 digests, and all arithmetic before the last rounding to a double is decimal, whose
`exp` and `ln` are correctly rounded: https://docs.python.org/3/library/decimal.html#decimal.Decimal.exp
"""

from __future__ import annotations

import decimal
import hashlib
from contextlib import AbstractContextManager

BITS = 64
DIGITS = 60  # far more than a double has, so that the last step is the only one that rounds


class Draw:
    """The random draw of one parameter in one trial, which depends only on *seed*, *trial* and *name*.

    So adding a parameter or trials to a sweep does not change the other values.
    """

    def __init__(self, seed: int, trial: int, name: str) -> None:
        self.text = f"runspec-draw/v1 {seed} {trial} {name}"

    def draw_bits(self, again: int = 0) -> int:
        """Return 64 bits: the first eight bytes of a SHA-256 digest, the most significant first."""
        digest = hashlib.sha256(f"{self.text} {again}".encode()).digest()
        return int.from_bytes(digest[: BITS // 8], "big")

    def draw_below(self, count: int) -> int:
        """Return a whole number from 0 to *count* - 1, all equally likely."""
        # The rest of a division would favour small numbers, so draws above the last full multiple are repeated.
        fair, again = (1 << BITS) // count * count, 0
        while (drawn := self.draw_bits(again)) >= fair:
            again += 1
        return drawn % count

    def draw_integer(self, low: int, high: int) -> str:
        """Return a whole number from *low* to *high*, both included, all equally likely."""
        return str(low + self.draw_below(high - low + 1))

    def draw_uniform(self, low: str, high: str) -> str:
        """Return a number that is uniformly distributed from *low* to *high*.

        >>> Draw(7, 0, "dropout").draw_uniform("0", "0.5")
        '0.3825583576400199'
        """
        ends = decimal.Decimal(low), decimal.Decimal(high)
        with _make_context():
            return _format_double(self._draw_between(*ends), *ends)

    def log_uniform(self, low: str, high: str) -> str:
        """Return a number from *low* to *high*, both above 0, whose logarithm is uniformly distributed.

        >>> Draw(7, 0, "lr").log_uniform("1e-5", "1e-1")
        '0.0021335274662541105'
        """
        ends = decimal.Decimal(low), decimal.Decimal(high)
        with _make_context():
            return _format_double(self._draw_between(ends[0].ln(), ends[1].ln()).exp(), *ends)

    def _draw_between(self, low: decimal.Decimal, high: decimal.Decimal) -> decimal.Decimal:
        return low + (high - low) * self.draw_bits() / (1 << BITS)


def _make_context() -> AbstractContextManager[decimal.Context]:
    return decimal.localcontext(decimal.Context(prec=DIGITS, rounding=decimal.ROUND_HALF_EVEN))


def _format_double(number: decimal.Decimal, low: decimal.Decimal, high: decimal.Decimal) -> str:
    """Return the shortest text of the double nearest to *number*; rounding never leaves the range *low* to *high*."""
    return repr(float(min(max(number, low), high)))
