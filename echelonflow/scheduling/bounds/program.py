"""Linear programs in sparse rows, solved by HiGHS."""

from __future__ import annotations

from typing import Any

import numpy as np

from echelonflow.errors import RunError
from echelonflow.model.arrays import Floats, Ints

_INFEASIBLE = 2
"""What scipy's linprog reports where no point fits."""


class Rows:
    """Constraints collected one entry at a time."""

    def __init__(self) -> None:
        self.right: list[float] = []
        self._row: list[int] = []
        self._column: list[int] = []
        self._value: list[float] = []

    def add(self, right: float) -> int:
        """A new constraint with this right-hand side; returns its number."""
        self.right.append(right)
        return len(self.right) - 1

    def put(self, row: int, column: int, value: float) -> None:
        """Add `value` to the coefficient of `column`."""
        self._row.append(row)
        self._column.append(column)
        self._value.append(value)

    def put_all(self, row: int, columns: Ints, values: Floats) -> None:
        """Add `values` to the coefficients of `columns`."""
        self._row += [row] * len(columns)
        self._column += columns.tolist()
        self._value += values.tolist()

    def matrix(self, columns: int) -> Any:
        """The coefficients as a scipy sparse matrix."""
        from scipy.sparse import csr_matrix

        return csr_matrix((self._value, (self._row, self._column)), shape=(len(self.right), columns))


class Program:
    """Minimise `cost` where `at_most` and `equal` are satisfied; the limits of variables are given to each solution."""

    def __init__(self, cost: Floats, at_most: Rows, equal: Rows) -> None:
        self._cost = cost
        self._at_most, self._at_most_right = at_most.matrix(len(cost)), at_most.right
        self._equal, self._equal_right = equal.matrix(len(cost)), equal.right

    def solve(self, lower: Floats, upper: Floats) -> Floats | None:
        """The best point with all variables in [lower, upper]; None where no point satisfies all constraints.

        Raises RunError if the solver gives up.
        """
        from scipy.optimize import linprog

        found = linprog(
            self._cost,
            A_ub=self._at_most,
            b_ub=self._at_most_right,
            A_eq=self._equal,
            b_eq=self._equal_right,
            bounds=np.column_stack((lower, upper)),
            method="highs",
        )
        if found.status == _INFEASIBLE:
            return None
        if found.status != 0:
            raise RunError(f"the solver of linear programs gave up on {len(self._cost)} variables: {found.message}")
        point: Floats = found.x
        return point
