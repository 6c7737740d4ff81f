"""Functions that the lakes of the tests know by their paths here."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass
from decimal import Decimal

from pyspark.sql.functions import udf

VAT = Decimal("1.19")


@dataclass(frozen=True)
class Price:
    amount: Decimal

    def net(self) -> Decimal:
        return (self.amount / VAT).quantize(Decimal("0.01"))


def net(amount: Decimal | None) -> Decimal | None:
    """Through a class and a value of this module, which must travel with it."""
    return None if amount is None else Price(amount).net()


def label(a: str | None, b: int | None) -> str:
    return f"{'nobody' if a is None else a.lower()}/{-1 if b is None else b % 3}"


def dice(n: int) -> int:
    return random.randint(1, n)


@functools.lru_cache
def cached(n: int) -> int:
    return n + 1


def uses_cached(n: int) -> int:
    return cached(n)


async def later(n: int) -> int:
    return n


decorated = udf(lambda n: n, "int")


def zero_fails(value: int) -> int:
    if value == 0:
        raise ValueError("zero!")
    return value
