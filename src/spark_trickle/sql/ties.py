"""Results that SQL leaves open because rows tie in an ORDER BY.

Where the order and the partition together name every column of the input, rows that tie are equal, and nothing is
open. Otherwise row_number and its kin, ROWS frames and LIMIT may pick any of the tied rows: each answer is right, and
what is stored is one of them.
"""

from __future__ import annotations

from sqlglot import exp

from spark_trickle.sql.algebra import Call, TopK, Window
from spark_trickle.sql.scalar import Scalar

# Functions that treat tied rows alike.
_FAIR = frozenset(["rank", "dense_rank", "percent_rank", "cume_dist"])
# Functions that look at single rows, whatever the frame.
_BY_ROW = frozenset(["row_number", "ntile", "lag", "lead", "nth_value", "first_value", "first", "last_value", "last"])


def open_calls(op: Window) -> frozenset[str]:
    """The calls whose answer depends on how ties fall."""
    return frozenset(c.name for c in op.calls if _open(op, c))


def _open(op: Window, call: Call) -> bool:
    tree = call.whole.tree
    window = tree if isinstance(tree, exp.Window) else tree.find(exp.Window)
    if window is None or call.function in _FAIR:
        return False
    order = window.args.get("order")
    keys = [o.this for o in order.expressions] if order is not None else []
    if _total((*keys, *(k.scalar.tree for k in op.keys)), op.child.columns):
        return False
    if call.function in _BY_ROW:
        return True
    spec = window.args.get("spec")
    if spec is None or str(spec.args.get("kind") or "").upper() != "ROWS":
        return False
    ends = (str(spec.args.get("start") or "").upper(), str(spec.args.get("end") or "").upper())
    return ends != ("UNBOUNDED", "UNBOUNDED")


def open_top(op: TopK) -> bool:
    """Whether a tie may fall on the border."""
    return not _total([s.tree.this for s in op.order if isinstance(s.tree, exp.Ordered)], op.child.columns)


def _total(keys: object, columns: tuple[str, ...]) -> bool:
    named = {Scalar(k).bare for k in keys}  # type: ignore[attr-defined]
    return set(columns) <= named


def order_columns(op: Window | TopK) -> frozenset[str]:
    """Columns whose values do not depend on how ties fall: what is ordered by, and the partition."""
    found: set[str] = set()
    scalars = [k.scalar for k in op.keys] if isinstance(op, Window) else [Scalar(s.tree.this) for s in op.order]
    if isinstance(op, Window):
        orders = []
        for one in op.calls:
            window = one.whole.tree.find(exp.Window)
            order = window.args.get("order") if window is not None else None
            orders.append({Scalar(o.this).bare for o in order.expressions} if order is not None else set())
        found |= {c for c in set.intersection(*orders) if c} if orders else set()
    return frozenset(found | {s.bare for s in scalars if s.bare})
