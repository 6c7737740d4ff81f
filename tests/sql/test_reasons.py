"""Every reason that the source can give is in the table of reasons."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import spark_trickle
from spark_trickle.delta.differentiate import differentiate
from spark_trickle.sql import algebra
from spark_trickle.sql.reasons import REASONS

SOURCE = Path(spark_trickle.__file__).parent
LAYERS = ("sql", "delta", "spark", "refresh")  # statements/ has a `refuse` of its own
DELTA_SIDE = {"AsOf", "Changes", "Empty", "Weigh", "Restrict", "Named", "Stored", "Level", "Unary", "Operator"}


def calls() -> Iterator[tuple[str, ast.expr, list[ast.AST]]]:
    """Every first argument of NotIncremental(…) and refuse(…), with where it is and what is around it."""

    def visit(node: ast.AST, around: list[ast.AST], file: Path) -> Iterator[tuple[str, ast.expr, list[ast.AST]]]:
        if isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("NotIncremental", "refuse"):
                yield f"{file.relative_to(SOURCE)}:{node.lineno}", node.args[0], around
        for child in ast.iter_child_nodes(node):
            yield from visit(child, [*around, node], file)

    for file in sorted(f for layer in LAYERS for f in (SOURCE / layer).rglob("*.py")):
        yield from visit(ast.parse(file.read_text(encoding="utf-8")), [], file)


def names(argument: ast.expr, around: list[ast.AST]) -> set[str] | None:
    """What a first argument can be; None where it cannot be told."""
    if isinstance(argument, ast.Constant):
        return {str(argument.value)}
    if isinstance(argument, ast.IfExp):
        both = names(argument.body, around), names(argument.orelse, around)
        return None if None in both else set().union(*(b for b in both if b))
    if isinstance(argument, ast.Attribute) and argument.attr == "reason":
        return set()  # handed on from another refusal
    if isinstance(argument, ast.Name):
        for outer in reversed(around):
            if isinstance(outer, ast.FunctionDef) and argument.id in [a.arg for a in outer.args.args]:
                return set() if outer.name == "refuse" else None
            if isinstance(outer, ast.For) and isinstance(outer.target, ast.Tuple):
                at = [getattr(t, "id", "") for t in outer.target.elts].index(argument.id)
                rows = outer.iter.elts if isinstance(outer.iter, ast.Tuple | ast.List) else []
                return {str(r.elts[at].value) for r in rows}  # type: ignore[attr-defined]
    return None


def test_every_reason_is_explained() -> None:
    used: dict[str, str] = {}
    for where, argument, around in calls():
        found = names(argument, around)
        if ast.unparse(argument) == "type(op).__name__.upper()":
            continue  # the operators, below
        assert found is not None, f"{where}: write the reason as a literal, so that this test can see it"
        used.update(dict.fromkeys(found, where))
    assert len(used) > 20
    missing = {name: where for name, where in used.items() if name not in REASONS}
    assert not missing, f"explain these in sql/reasons.py: {missing}"
    assert not set(REASONS) - set(used), "no source gives these any more: take them out of sql/reasons.py"


def test_operators_have_a_rule_or_a_reason() -> None:
    operators = [
        c
        for c in vars(algebra).values()
        if isinstance(c, type) and issubclass(c, algebra.Operator) and c.__name__ not in DELTA_SIDE
    ]
    assert len(operators) > 6
    default = differentiate.dispatch(object)
    without = [c.__name__ for c in operators if differentiate.dispatch(c) is default]
    assert not [name for name in without if name.upper() not in REASONS]


def test_reasons_are_sentences() -> None:
    for name, reason in REASONS.items():
        assert name.isupper()
        assert reason.meaning.endswith("."), name
        assert reason.change.endswith("."), name
