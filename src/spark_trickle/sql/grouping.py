"""GROUP BY with its sets, aggregate calls, HAVING and expressions over aggregates -> Aggregate, Filter, Project."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence

from sqlglot import exp

from spark_trickle.sql.algebra import Aggregate, Call, Explode, Item, Operator, Project, keep
from spark_trickle.sql.functions import FunctionKind
from spark_trickle.sql.resolve import Place, Resolver, function_name, is_all
from spark_trickle.sql.scalar import Scalar, call, case_when, cast, column, equal, identifier, number, operand

Selected = tuple[tuple[str, Scalar], ...]

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_GROUPING = ("grouping", "grouping_id")
MAX_SETS = 4096


class Grouping:
    """One grouped SELECT."""

    def __init__(self, resolver: Resolver, fresh: Callable[[str], str], node: exp.Select, relation: Operator) -> None:
        self.resolver = resolver
        self.relation = relation  # the rows that are grouped
        self.fresh = fresh
        self.node = node
        self.keys: list[Item] = []
        self.calls: list[Call] = []
        self.sets: list[tuple[int, ...]] | None = None  # positions of the keys in each grouping set
        self._written: dict[str, Scalar] = {}  # keys of grouping sets by name, as they were before nulling
        self._mask_key = ""
        self._in_sets = False

    def applies(self, scalars: Iterable[Scalar]) -> bool:
        if self.node.args.get("group") is not None or self.node.args.get("having") is not None:
            return True
        return any(self.has_call(s.tree) for s in scalars)

    def below(self, scalars: Iterable[Scalar]) -> frozenset[str]:
        """Columns used inside aggregate calls and group keys: they must be there before the rows are grouped."""
        used: set[str] = set()
        for scalar in scalars:
            for node in scalar.tree.walk():
                if self.unit(node) is not None:
                    used |= Scalar(node).columns
        for key in self.keys:
            used |= key.scalar.columns
        return frozenset(used)

    def expand(self, relation: Operator) -> Operator:
        """The rows that are grouped: with grouping sets, each row once per set."""
        return relation if self.sets is None else self._expand(relation)

    def aggregate(self, relation: Operator) -> Operator:
        """The aggregate of all keys and of all calls met so far."""
        return Aggregate(child=relation, keys=tuple(self.keys), calls=tuple(self.calls))

    # -- keys ------------------------------------------------------------------------------------------------------

    def read_keys(self, selected: Selected) -> None:
        group: exp.Group | None = self.node.args.get("group")
        if group is None:
            return
        if group.args.get("totals"):
            raise self.resolver.refuse("GROUPING_SETS", "WITH TOTALS is not Spark SQL", group)
        written = group.expressions
        if len(written) == 1 and is_all(written[0]) and not self.resolver.knows("all"):
            for shown, scalar in selected:
                if not self.has_call(scalar.tree):
                    self._add_key(shown, scalar)
            return
        trailing = [
            *(group.args.get("rollup") or ()),
            *(group.args.get("cube") or ()),
            *(group.args.get("grouping_sets") or ()),
        ]
        if not trailing and not any(isinstance(p, exp.Rollup | exp.Cube | exp.GroupingSets) for p in written):
            for part in written:
                self._read_key(part, selected)
            return
        self._read_sets(written, trailing, selected)

    def _read_key(self, part: exp.Expr, selected: Selected) -> int:
        part = part.unalias().unnest()
        if isinstance(part, exp.Identifier):  # so the parser leaves a key that pipe syntax names
            part = exp.Column(this=part.copy())
        if isinstance(part, exp.Literal) and part.is_int:
            shown, scalar = selected[int(part.name) - 1]
        else:
            shown, scalar = part.name or "key", self.resolver.scalar(part, clause=Place.GROUP_BY)
        return self._add_key(shown, scalar)

    def _add_key(self, shown: str, scalar: Scalar) -> int:
        same = self._same([k.scalar for k in self.keys], [scalar], ask=self._in_sets).get(scalar)
        if same is not None:
            return same
        self.keys.append(Item(self.fresh(f"k_{shown}"), scalar))
        return len(self.keys) - 1

    def _same(self, keys: Sequence[Scalar], scalars: Sequence[Scalar], *, ask: bool = True) -> dict[Scalar, int]:
        """Which of the scalars are which of the keys: by their text, or, asking Spark, as `b + a` is `a + b`."""
        found = {s: keys.index(s) for s in scalars if s in keys}
        asked = [s for s in dict.fromkeys(scalars) if s not in found and any(_may_be_same(s, k) for k in keys)]
        if not asked or not ask:
            return found
        first = self.resolver.functions.same(self.relation, [*keys, *asked])
        if first is None and not self._in_sets:
            return found  # what is no key by its text is refused later
        if first is None:
            raise self.resolver.refuse(
                "GROUP_EXPRESSION", f"nobody can tell whether {asked[0]} is a GROUP BY expression", self.node
            )
        return {**found, **{s: at for s, at in zip(asked, first[len(keys) :], strict=True) if at < len(keys)}}

    # -- grouping sets ---------------------------------------------------------------------------------------------

    def _read_sets(self, written: Sequence[exp.Expr], trailing: Sequence[exp.Expr], selected: Selected) -> None:
        self._in_sets = True  # keys that are one to Spark must be one here: a set without it nulls it

        def columns(part: exp.Expr) -> tuple[int, ...]:
            inner = part.expressions if isinstance(part, exp.Tuple) else [part]
            return tuple(self._read_key(p, selected) for p in inner)

        def sets(part: exp.Expr) -> list[tuple[int, ...]]:
            if isinstance(part, exp.Rollup | exp.Cube):
                units = [columns(p) for p in part.expressions]
                return _rollup(units) if isinstance(part, exp.Rollup) else _cube(units)
            if isinstance(part, exp.GroupingSets):
                found: list[tuple[int, ...]] = []
                for p in part.expressions:
                    nested = isinstance(p, exp.Rollup | exp.Cube | exp.GroupingSets)
                    found += sets(p) if nested else [columns(p)]
                return found
            return [columns(part)]

        if trailing:  # GROUP BY a, b WITH ROLLUP; GROUP BY a, b GROUPING SETS (…)
            units = [columns(p) for p in written]
            last = trailing[-1]
            if isinstance(last, exp.GroupingSets):
                product = sets(last)
            else:
                product = _rollup(units) if isinstance(last, exp.Rollup) else _cube(units)
        else:
            product = [()]
            for part in written:
                product = [(*a, *b) for a in product for b in sets(part)]
        if len(product) > MAX_SETS:
            raise self.resolver.refuse("GROUPING_SETS", f"{len(product)} grouping sets are too many", self.node)
        self.sets = product

    def _expand(self, relation: Operator) -> Operator:
        """Every row once per grouping set, with the keys that are not in the set NULL.

        The aggregates see the columns as they were; only the keys are nulled.
        """
        assert self.sets is not None
        count = len(self.keys)
        masks = [sum(1 << (count - 1 - at) for at in range(count) if at not in s) for s in self.sets]
        # Equal sets give equal rows twice, as Spark does: then the position tells them apart.
        doubled = len(set(masks)) < len(masks)
        mask, position = self.fresh("grouping"), self.fresh("set")
        values = Scalar(exp.Anonymous(this="array", expressions=[cast(number(m), "bigint").tree for m in masks]))
        generator = call("posexplode" if doubled else "explode", values)
        names = (position, mask) if doubled else (mask,)
        expanded = Explode(child=relation, generator=generator, names=names)
        items, keys = list(keep(*expanded.columns)), []
        for at, key in enumerate(self.keys):
            bit = count - 1 - at
            kept = equal(call("getbit", column(mask), number(bit)), number(0))
            nulled = self.fresh(f"g_{key.name}")
            items.append(Item(nulled, case_when(kept, key.scalar)))
            keys.append(Item(key.name, column(nulled)))
            self._written[key.name] = key.scalar
        self._mask_key = self.fresh("grouping_key")
        self.keys = [*keys, Item(self._mask_key, column(mask))]
        if doubled:
            self.keys.append(Item(self.fresh("set_key"), column(position)))
        return Project(child=expanded, items=tuple(items))

    def _key_scalars(self) -> Iterable[tuple[str, Scalar]]:
        """(name, as it was written) of the keys a select list can mean."""
        if self.sets is None:
            return [(k.name, k.scalar) for k in self.keys]
        return list(self._written.items())

    def _grouping(self, node: exp.Expr, name: str) -> exp.Expr:
        if self.sets is None:
            raise self.resolver.refuse("GROUPING_SETS", f"{name}() without grouping sets", node)
        if name == "grouping_id":  # of all keys: Spark refuses any other list
            return exp.Column(this=identifier(self._mask_key))
        bit = self._bit(Scalar(node.expressions[0]))
        if bit is None:
            raise self.resolver.refuse("GROUPING_SETS", "grouping() of something that is not a key", node)
        return call("getbit", column(self._mask_key), number(bit)).tree

    def _bit(self, scalar: Scalar) -> int | None:
        at = self._same(list(self._written.values()), [scalar]).get(scalar)
        return None if at is None else len(self._written) - 1 - at

    # -- calls -----------------------------------------------------------------------------------------------------

    def unit(self, node: exp.Expr) -> exp.Expr | None:
        """The function at the heart of an aggregate call with its FILTER, WITHIN GROUP, … around it."""
        heart = node
        while isinstance(heart, _WRAPPERS):
            heart = heart.this
        name = function_name(heart)
        if name is None or name in _GROUPING or _windowed(node):
            return None
        if self.resolver.functions.kind(name) is not FunctionKind.AGGREGATE:
            return None
        return heart

    def has_call(self, tree: exp.Expr) -> bool:
        return any(self.unit(node) is not None for node in tree.walk())

    def over(self, scalar: Scalar, second: Mapping[str, Scalar] | None = None) -> Scalar:
        """The scalar over the aggregate's output: keys and calls replaced by their columns.

        `second` has what names of HAVING mean where they are neither a key nor inside a call.
        """
        result = self._over(scalar, second or {}, ask=self._in_sets)
        if result is None and not self._in_sets:
            result = self._over(scalar, second or {}, ask=True)
        if result is None:
            raise self.resolver.refuse(
                "GROUP_EXPRESSION",
                f"{scalar.sql()} could not be matched with the GROUP BY expressions",
                self.node,
            )
        return result

    def _over(self, scalar: Scalar, second: Mapping[str, Scalar], *, ask: bool) -> Scalar | None:
        """None when a column is left that the aggregate does not give."""
        offered: set[str] = set()
        keys = list(self._key_scalars())
        same = self._same([k for _, k in keys], [Scalar(n) for n in self._candidates(scalar.tree)], ask=ask)

        def swap(node: exp.Expr) -> exp.Expr:
            at = same.get(Scalar(node)) if isinstance(node, exp.Condition) else None
            if at is not None:
                offered.add(keys[at][0])
                return exp.Column(this=identifier(keys[at][0]))
            function = function_name(node)
            if function in _GROUPING:
                found = self._grouping(node, function)
                offered.update(Scalar(found).columns)
                return found
            if self.unit(node) is not None:
                name = self._call(node).name
                offered.add(name)
                return exp.Column(this=identifier(name))
            if isinstance(node, exp.Column | exp.Dot) and Scalar(node).sql() in second:
                found = self.over(second[Scalar(node).sql()]).tree
                offered.update(Scalar(found).columns)
                return operand(found)
            return node

        result = Scalar(scalar.tree.copy().transform(swap))
        pending = {p.name for p in self.resolver.pending.values()}
        return result if result.columns <= offered | pending else None

    def _candidates(self, tree: exp.Expr) -> list[exp.Expr]:
        """The parts of an expression that may be a key: not those inside a call, of rows not yet grouped."""

        def above(node: exp.Expr) -> bool:
            """Whether its value comes from the grouped rows."""
            return isinstance(node, exp.Window) or function_name(node) in _GROUPING or self.unit(node) is not None

        def closed(node: exp.Expr) -> bool:
            return isinstance(node, exp.Lambda) or (above(node) and not isinstance(node, exp.Window))

        parts = [n for n in tree.walk(prune=closed) if isinstance(n, exp.Condition)]
        if not self._in_sets:  # a literal is what it is, but a set without it nulls it
            parts = [n for n in parts if not isinstance(n, exp.Literal)]
        return [n for n in parts if not any(map(above, n.walk()))]

    def _call(self, node: exp.Expr) -> Call:
        whole = Scalar(node.copy())
        for known in self.calls:
            if known.whole == whole:
                return known
        heart = self.unit(node)
        assert heart is not None
        if whole.outer and not whole.columns:
            raise self.resolver.refuse("OUTER_AGGREGATE", f"{whole} aggregates columns of the query around it", node)
        args = heart.expressions
        distinct = bool(args) and isinstance(args[0], exp.Distinct)
        if distinct:
            args = args[0].expressions
        plain = all(not isinstance(a, exp.Order | exp.Ordered | exp.Limit) for a in heart.find_all(exp.Expr))
        condition: Scalar | None = None
        outer = node
        while outer is not heart:
            if isinstance(outer, exp.Filter):
                condition = Scalar(outer.expression.this.copy())
            else:
                plain = False
            outer = outer.this
        name = function_name(heart) or ""
        found = Call(
            name=self.fresh(f"a_{name}"),
            whole=whole,
            function=name,
            args=tuple(Scalar(a.copy()) for a in args if not isinstance(a, exp.Star)),
            distinct=distinct,
            filter=condition,
            plain=plain,
        )
        self.calls.append(found)
        return found


def _may_be_same(one: Scalar, other: Scalar) -> bool:
    """Expressions over other columns are never the same."""
    return one.bare is None and one.columns == other.columns and one.outer == other.outer


def _windowed(node: exp.Expr) -> bool:
    """Whether the node is the function of a window, not an aggregate of the rows."""
    while isinstance(node.parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls) and node.arg_key == "this":
        node = node.parent
    return isinstance(node.parent, exp.Window) and node.arg_key == "this"


def _rollup(units: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(itertools.chain(*units[:n])) for n in range(len(units), -1, -1)]


def _cube(units: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    chosen = itertools.product((True, False), repeat=len(units))
    return [tuple(itertools.chain(*(u for u, used in zip(units, use, strict=True) if used))) for use in chosen]
