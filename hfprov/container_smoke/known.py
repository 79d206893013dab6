"""The answers that the program must give, worked out here. Pure.

On purpose not by the program's own code: entries of its matrices repeat, so that all products are
among 11 x 13 sums, whatever the size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

CPU_SIZE = 48
"""Rows and columns; in plain Python some hundredths of a second."""
GPU_SIZE = 512
TERMS = 256


def size_for(variant: str) -> int:
    return CPU_SIZE if variant == "cpu" else GPU_SIZE


def _digest(values: Sequence[int]) -> str:
    return hashlib.sha256(",".join(map(str, values)).encode()).hexdigest()


def product_digest(size: int, salt: int) -> str:
    """SHA-256 of the product A B, row by row.

    A[i][j] = (7i + 3j + salt) mod 11 - 5, and B[i][j] = (5i + 9j + salt) mod 13 - 6.
    """
    rows = [[(7 * i + 3 * k + salt) % 11 - 5 for k in range(size)] for i in range(11)]
    columns = [[(5 * k + 9 * j + salt) % 13 - 6 for k in range(size)] for j in range(13)]
    sums = [[sum(map(int.__mul__, row, column)) for column in columns] for row in rows]
    return _digest([sums[i % 11][j % 13] for i in range(size) for j in range(size)])


def sum_digest(names: Sequence[str], members: Sequence[str], salt: int) -> str:
    """SHA-256 of the sum of what the members bring: by place among the names, modulo 1009."""
    places = [names.index(one) for one in members]
    totals = [sum((salt + 31 * place + 7 * k) % 1009 for place in places) for k in range(TERMS)]
    return _digest(totals)
