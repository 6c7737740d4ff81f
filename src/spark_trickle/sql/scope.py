"""What a name means: the columns a FROM clause offers, and how Spark's name rules pick one of them.

Spark has analyzed the definition before this runs, so every name has exactly one meaning; what cannot be resolved
here is refused by name rather than guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from spark_trickle.sql.scalar import Scalar, identifier


@dataclass(frozen=True, slots=True)
class Output:
    """A column as the user sees it (`shown`) and as the algebra calls it (`name`)."""

    shown: str
    name: str


@dataclass(frozen=True, slots=True)
class Visible:
    """One relation of a FROM clause: its qualifier parts (`shop`, `orders`) and its columns."""

    qualifier: tuple[str, ...]
    outputs: tuple[Output, ...]

    def answers_to(self, parts: tuple[str, ...]) -> bool:
        mine = tuple(p.lower() for p in self.qualifier)
        asked = tuple(p.lower() for p in parts)
        return bool(asked) and mine[-len(asked) :] == asked


class Unresolved(Exception):
    """A name that no rule here explains."""


@dataclass(slots=True)
class Scope:
    relations: list[Visible] = field(default_factory=list)
    star: list[Output] = field(default_factory=list)  # unqualified names, in the order of SELECT *
    hidden: list[Output] = field(default_factory=list)  # keys of USING that only their tables' names reach

    def find(self, shown: str) -> Output | None:
        found = {o.name: o for o in self.star if o.shown.lower() == shown.lower()}
        if len(found) > 1:
            raise Unresolved(f"{shown} is ambiguous")
        return next(iter(found.values()), None)

    def qualified(self, qualifier: tuple[str, ...], shown: str) -> Output | None:
        for relation in self.relations:
            if relation.answers_to(qualifier):
                for output in relation.outputs:
                    if output.shown.lower() == shown.lower():
                        return output
        return None

    def expand(self, qualifier: tuple[str, ...]) -> tuple[Output, ...]:
        """The columns of `*` or `t.*`; after USING its keys come first."""
        if not qualifier:
            return tuple(self.star)
        for relation in self.relations:
            if relation.answers_to(qualifier):
                place = {o.name: n for n, o in enumerate((*self.hidden, *self.star))}
                return tuple(sorted(relation.outputs, key=lambda o: place.get(o.name, len(place))))
        raise Unresolved(f"{'.'.join(qualifier)}.*")

    def resolve(self, parts: tuple[str, ...]) -> exp.Expr | None:
        """`t.c.f`: the longest qualifier wins, what is left after the column are struct fields."""
        for cut in range(len(parts) - 1, -1, -1):
            qualifier, shown, fields = parts[:cut], parts[cut], parts[cut + 1 :]
            output = self.qualified(qualifier, shown) if qualifier else self.find(shown)
            if output is not None:
                return with_fields(exp.Column(this=identifier(output.name)), fields)
        return None


@dataclass(frozen=True, slots=True)
class Outputs:
    """A select list as ORDER BY and HAVING see it: names and what they stand for."""

    scope: Scope
    scalars: Mapping[str, Scalar]

    def resolve(self, parts: tuple[str, ...]) -> exp.Expr | None:
        found = self.scope.resolve(parts)
        return None if found is None else Scalar(found).substitute(self.scalars).tree


def outputs_of(selected: Iterable[tuple[str, Scalar]], scope: Scope) -> Outputs:
    """(shown name, scalar) of each column over the scope of the FROM clause. Equal columns are not ambiguous."""
    names: dict[Scalar, str] = {}
    columns = []
    for shown, scalar in selected:
        name = names.setdefault(scalar, f"(output {len(names)})")
        columns.append((Output(shown, name), scalar.bare))
    return Outputs(projected(scope, columns), {n: s for s, n in names.items()})


def projected(scope: Scope, columns: Iterable[tuple[Output, str | None]]) -> Scope:
    """The scope after a projection: (output, the input column that it is, if it is one).

    An input column that keeps its name keeps the qualifier of its table, too.
    """
    star: list[Output] = []
    relations: dict[tuple[str, ...], list[Output]] = {}
    for output, source in columns:
        star.append(output)
        for relation in scope.relations:
            if any(o.name == source and o.shown.lower() == output.shown.lower() for o in relation.outputs):
                relations.setdefault(relation.qualifier, []).append(output)
    return Scope([Visible(q, tuple(outputs)) for q, outputs in relations.items()], star)


def renamed_scope(relations: Iterable[Visible], names: Mapping[str, str]) -> tuple[Visible, ...]:
    """The relations with their columns under new names; columns without one are out of reach."""
    return tuple(
        Visible(r.qualifier, tuple(Output(o.shown, names[o.name]) for o in r.outputs if o.name in names))
        for r in relations
    )


def with_fields(base: exp.Expr, fields: tuple[str, ...]) -> exp.Expr:
    for name in fields:
        base = exp.Dot(this=base, expression=identifier(name))
    return base


def join_scopes(left: Scope, right: Scope) -> Scope:
    """The scope of a join without USING."""
    return Scope([*left.relations, *right.relations], [*left.star, *right.star], [*left.hidden, *right.hidden])
