"""GROUP BY with its sets, aggregate calls, HAVING and expressions over aggregates -> Aggregate, Filter, Project."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from sqlglot import exp

from spark_trickle.sql.algebra import Aggregate, Call, Explode, Item, Operator, Project, keep
from spark_trickle.sql.functions import FunctionKind
from spark_trickle.sql.resolve import Place, Resolver, function_name
from spark_trickle.sql.scalar import Scalar, call, case_when, cast, column, equal, identifier, number

Selected = tuple[tuple[str, Scalar], ...]

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
MAX_SETS = 4096


class Grouping:
    """One grouped SELECT."""

    def __init__(self, resolver: Resolver, fresh: Callable[[str], str], node: exp.Select) -> None:
        self.resolver = resolver
        self.fresh = fresh
        self.node = node
        self.keys: list[Item] = []
        self.calls: list[Call] = []
        self.sets: list[tuple[int, ...]] | None = None  # positions of the keys in each grouping set
        self._written: dict[str, Scalar] = {}  # keys of grouping sets by name, as they were before nulling
        self._bits: dict[str, int] = {}  # their bits in the grouping id
        self._mask_key = ""

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
        everything = group.args.get("all") or (
            len(written) == 1 and isinstance(written[0], exp.Column) and written[0].sql().upper() == "ALL"
        )
        if everything:
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
        for at, known in enumerate(self.keys):
            if known.scalar == scalar:
                return at
        self.keys.append(Item(self.fresh(f"k_{shown}"), scalar))
        return len(self.keys) - 1

    # -- grouping sets ---------------------------------------------------------------------------------------------

    def _read_sets(self, written: Sequence[exp.Expr], trailing: Sequence[exp.Expr], selected: Selected) -> None:
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
            self._bits[key.scalar.sql()] = bit
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
        if name == "grouping_id":
            args = [Scalar(a).sql() for a in node.expressions]
            if args and args != list(self._bits):
                raise self.resolver.refuse("GROUPING_SETS", "grouping_id() of some of the keys", node)
            return exp.Column(this=identifier(self._mask_key))
        bit = self._bits.get(Scalar(node.expressions[0]).sql())
        if bit is None:
            raise self.resolver.refuse("GROUPING_SETS", "grouping() of something that is no key", node)
        return call("getbit", column(self._mask_key), number(bit)).tree

    # -- calls -----------------------------------------------------------------------------------------------------

    def unit(self, node: exp.Expr) -> exp.Expr | None:
        """The function at the heart of an aggregate call with its FILTER, WITHIN GROUP, … around it."""
        heart = node
        while isinstance(heart, _WRAPPERS):
            heart = heart.this
        name = function_name(heart)
        if name is None or name in ("grouping", "grouping_id") or _windowed(node):
            return None
        if self.resolver.functions.kind(name) is not FunctionKind.AGGREGATE:
            return None
        return heart

    def has_call(self, tree: exp.Expr) -> bool:
        return any(self.unit(node) is not None for node in tree.walk())

    def over(self, scalar: Scalar) -> Scalar:
        """The scalar over the aggregate's output: keys and calls replaced by their columns."""
        offered: set[str] = set()

        def swap(node: exp.Expr) -> exp.Expr:
            for name, written in self._key_scalars():
                if type(node) is type(written.tree) and Scalar(node) == written:
                    offered.add(name)
                    return exp.Column(this=identifier(name))
            function = function_name(node)
            if function in ("grouping", "grouping_id"):
                found = self._grouping(node, function)
                offered.update(Scalar(found).columns)
                return found
            if self.unit(node) is not None:
                name = self._call(node).name
                offered.add(name)
                return exp.Column(this=identifier(name))
            return node

        result = Scalar(scalar.tree.copy().transform(swap))
        pending = {p.name for p in self.resolver.pending.values()}
        if not result.columns <= offered | pending:
            raise self.resolver.refuse(
                "GROUP_EXPRESSION",
                f"{scalar.sql()} could not be matched with the GROUP BY expressions",
                self.node,
            )
        return result

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
