"""Typed scalar expressions and predicates that do not fail under ANSI mode, whatever the data.

Sums that might overflow, divisions and casts use the try_ functions. Only expressions over SIGNED and FLT tell -0.0
from 0.0. Expressions that can fail are in guarded.py, over tables that are made for them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz.context import Context
from tests.fuzz.types import COMPARABLE, ENDS, NESTED, ODD, ZEROS, Ref, T, constants, literal

Refs = Sequence[Ref]
_ORDERED = (T.INT, T.BIGINT, T.DEC, T.STR, T.DATE, T.TS, T.DBL)


def of_type(refs: Refs, *types: T) -> list[Ref]:
    return [r for r in refs if r.type in types]


def column(ctx: Context, refs: Refs, type_: T) -> str:
    """A column of the type, a constant where there is none."""
    found = of_type(refs, type_)
    return ctx.rnd.choice(found).sql if found else literal(ctx.rnd, type_, null=True)


def expression(ctx: Context, refs: Refs, type_: T, depth: int = 2) -> str:
    """An expression of a type."""
    if type_ is T.BOOL and depth > 0 and ctx.chance(0.6):
        return f"({predicate(ctx, refs, depth - 1)})"
    if depth <= 0 or ctx.chance(0.35):
        return column(ctx, refs, type_)
    there = {r.type for r in refs}
    forms = {
        f"form {n}": w
        for n, (w, form) in enumerate(_FORMS.get(type_, ()))
        # Over constants alone a form says little.
        if _types(form) <= there or ctx.chance(0.05)
    }
    general = {"case": 1.0, "coalesce": 1.0, "column": 1.0}
    if ctx.asked("case", "coalesce"):
        forms = {}
    chosen = ctx.pick({**general, **forms})
    if chosen == "column":
        return column(ctx, refs, type_)
    if chosen == "case":
        return case(ctx, refs, type_, depth)
    if chosen == "coalesce":
        ctx.tag("coalesce")
        return f"coalesce({column(ctx, refs, type_)}, {expression(ctx, refs, type_, depth - 1)})"
    template = _FORMS[type_][int(chosen.split()[1])][1]
    return fill(ctx, refs, template, depth - 1)


def wanted_expression(ctx: Context, refs: Refs) -> tuple[str, T] | None:
    """An expression with a construct that is wanted, and its type."""
    if ctx.asked("case", "coalesce"):
        type_ = ctx.rnd.choice((T.INT, T.STR, T.DATE))
        if ctx.asked("case"):
            return case(ctx, refs, type_, 2), type_
        ctx.tag("coalesce")
        return f"coalesce({column(ctx, refs, type_)}, {expression(ctx, refs, type_, 1)})", type_
    found = [(t, form) for t, forms in _FORMS.items() for _, form in forms if form.partition("|")[0] in ctx.want]
    if not found:
        return None
    there = {r.type for r in refs}
    type_, form = ctx.rnd.choice([f for f in found if _types(f[1]) <= there] or found)
    return fill(ctx, refs, form, 1), type_


def case(ctx: Context, refs: Refs, type_: T, depth: int) -> str:
    ctx.tag("case")
    if ctx.chance(0.3):
        key = column(ctx, refs, T.INT)
        value = literal(ctx.rnd, T.INT)
        whens = f"{key} WHEN {value} THEN {expression(ctx, refs, type_, depth - 1)}"
    else:
        whens = f"WHEN {predicate(ctx, refs, depth - 1)} THEN {expression(ctx, refs, type_, depth - 1)}"
    other = f" ELSE {column(ctx, refs, type_)}" if ctx.chance(0.8) else ""
    return f"CASE {whens}{other} END"


# Templates: {I} is an INT expression, {l} a constant INT, and so on by the letters of _LETTERS. What stands before
# the bar are tags.
_FORMS: dict[T, tuple[tuple[float, str], ...]] = {
    T.INT: (
        (2, "|({I} + {l})"),
        (1, "|try_add({I}, {I})"),
        (1, "|try_multiply({I}, {l})"),
        (1, "|CAST(pmod({I}, 3) AS INT)"),
        (1, "|abs({I})"),
        (1, "|greatest({I}, {I})"),
        (1, "|nullif({I}, {l})"),
        (1, "|(-{i})"),
        (1, "string function|length({S})"),
        (0.5, "string function|instr({S}, 'a')"),
        (1, "try_cast|try_cast({S} AS INT)"),
        (1, "date function|year({D})"),
        (1, "date function|datediff({D}, {D})"),
        (0.5, "date function|extract(MONTH FROM {D})"),
        (1, "struct access|{U}.a"),
        (1, "array access|size({A})"),
        (1, "array access|get({A}, 0)"),
        (0.5, "array access|try_element_at({A}, 2)"),
        (1, "map access|{M}['a']"),
        (0.5, "map access|size(map_keys({M}))"),
        (1, "higher-order function|aggregate({A}, 0, (acc, e) -> acc + coalesce(e, 1))"),
        (1, "higher-order function|size(filter({A}, e -> e > {l}))"),
        (0.5, "date function|hour({Z})"),
        (0.5, "bytes|octet_length({S})"),
        (0.5, "map order|cardinality({M})"),
        (0.5, "map order|get(map_values({M}), 0)"),
        (0.5, "nested map|size({O})"),
        (0.5, "nested map|try_element_at({K}.m, 'k1')"),
        (0.5, "nested map|cardinality(get({L}, 0))"),
        (0.5, "nested map|get(map_values({Y}.m), 0)"),
        (0.5, "variant|try_variant_get({V}, '$.a', 'int')"),
    ),
    T.BIGINT: (
        (2, "|CAST({I} AS BIGINT)"),
        (1, "|try_add({B}, {I})"),
        (1, "|try_subtract({B}, {B})"),
        (1, "|try_multiply({B}, {l})"),
        (1, "try_cast|try_cast({N} AS BIGINT)"),
        (1, "|({B} % 7)"),
    ),
    T.DEC: (
        (2, "|try_add({N}, {n})"),
        (1, "|try_multiply({n}, 1.5)"),
        (1, "|round({N}, 1)"),
        (1, "try_cast|try_cast({I} AS DECIMAL(10,2))"),
        (1, "|abs({N})"),
        (0.5, "|try_divide({n}, 4)"),
    ),
    T.STR: (
        (2, "string function|upper({S})"),
        (1, "string function|concat({S}, '!')"),
        (1, "string function|concat_ws('-', {s}, {S})"),
        (1, "string function|substr({S}, 1, 2)"),
        (1, "string function|replace({S}, 'a', 'z')"),
        (0.5, "string function|lpad({S}, 3, '*')"),
        (0.5, "string function|trim({S})"),
        (0.5, "string function|({s} || {s})"),
        (0.5, "string function|to_json(struct({i}, {s}, {S}))"),
        (1, "|CAST({I} AS STRING)"),
        (0.5, "|CAST({D} AS STRING)"),
        (1, "date function|date_format({Z}, 'yyyy-MM')"),
        (1, "struct access|{U}.b"),
        (1, "array access|get({X}, 0)"),
        (0.5, "array access|array_join({X}, ',')"),
        (0.5, "higher-order function|array_join(transform({X}, e -> upper(e)), '/')"),
        (0.5, "bytes|hex({S})"),
        (0.5, "bytes|concat({s}, '<', {S}, '>')"),
        (0.5, "date function|CAST({Z} AS STRING)"),
        (0.5, "sign of zero|CAST({G} AS STRING)"),
        (0.5, "sign of zero|concat('f', CAST({E} AS STRING))"),
        (0.5, "map order|get(map_keys({M}), 0)"),
        (0.5, "map order|to_json({M})"),
        (0.5, "map order|to_json(map_entries({M}))"),
        (0.5, "map order|array_join(map_keys({M}), ',')"),
        (0.5, "nested map|to_json({K})"),
        (0.5, "nested map|to_json({L})"),
        (0.5, "nested map|to_json({O})"),
        (0.5, "nested map|get(map_keys({O}), 0)"),
        (0.5, "nested map|get(map_keys(get({L}, 0)), 0)"),
        (0.5, "nested map|get(map_keys({K}.m), 0)"),
        (0.5, "nested map|hex(get(map_keys({Y}.m), 0))"),
        (0.5, "variant|to_json({V})"),
        (0.5, "variant|schema_of_variant({V})"),
        (0.5, "variant|try_variant_get({V}, '$[0]', 'string')"),
        (0.5, "wide number|CAST({W} AS STRING)"),
        (0.5, "wide number|CAST({Q} AS STRING)"),
    ),
    T.DATE: (
        (2, "date function|date_add({D}, CAST(pmod({I}, 30) AS INT))"),
        (1, "date function|last_day({D})"),
        (1, "date function|trunc({D}, 'MM')"),
        (1, "|CAST({Z} AS DATE)"),
        (1, "try_cast|try_cast({S} AS DATE)"),
    ),
    T.TS: (
        (2, "|CAST({D} AS TIMESTAMP)"),
        (1, "date function|date_trunc('DAY', {Z})"),
        (1, "date function|({Z} + INTERVAL 1 DAY)"),
    ),
    T.DBL: (
        (2, "|CAST({i} AS DOUBLE)"),
        (1, "|({F} + 0.5D)"),
        (1, "|try_divide({i}, 4)"),
        (1, "|abs({F})"),
    ),
    T.INTS: (
        (2, "higher-order function|transform({A}, e -> e + 1)"),
        (1, "higher-order function|filter({A}, e -> e IS NOT NULL)"),
        (1, "|array({i}, {i})"),
        (1, "array access|sort_array({A})"),
        (0.5, "array access|array_distinct({A})"),
    ),
    T.STRS: (
        (2, "string function|split({S}, ' ')"),
        (1, "|array({s}, {s})"),
        (1, "higher-order function|transform({X}, (e, n) -> concat(e, CAST(n AS STRING)))"),
    ),
    T.STRUCT: ((1, "|named_struct('a', {I}, 'b', {S})"),),
    T.STRUCTS: ((1, "|array(named_struct('x', {I}, 'y', {S}))"),),
    T.MAP: (
        (1, "|map('a', {I}, 'c', {I})"),
        (1, "higher-order function|map_filter({M}, (mk, mv) -> mv > 1)"),
        (1, "map order|map_from_entries(map_entries({M}))"),
        (1, "map order|transform_values({M}, (mk, mv) -> mv + 1)"),
    ),
    T.SIGNED: (
        (1, "sign of zero|(- {G})"),
        (1, "sign of zero|CAST({E} AS DOUBLE)"),
        (1, "sign of zero|coalesce({G}, {G})"),
    ),
    T.FLT: ((1, "sign of zero|(- {E})"), (1, "sign of zero|CAST({G} AS FLOAT)")),
    T.SMAP: ((1, "nested map|named_struct('m', {M}, 'n', {I})"), (1, "nested map|coalesce({K}, {K})")),
    T.MAPS: ((1, "nested map|array({M}, {M})"), (1, "nested map|reverse({L})")),
    T.MMAP: ((1, "nested map|map('p', {M}, 'q', {M})"), (1, "nested map|map_filter({O}, (mk, mv) -> size(mv) > 1)")),
    T.BMAP: ((1, "nested map|named_struct('m', map(CAST(coalesce({S}, '') AS BINARY), {I}))"), (1, "nested map|{Y}")),
    T.VAR: (
        (1, "variant|to_variant_object(named_struct('a', {I}, 'd', {D}))"),
        (1, "variant|to_variant_object(array(CAST({D} AS VARIANT), CAST({S} AS VARIANT)))"),
        (1, "variant|CASE WHEN {i} > {l} THEN {V} ELSE {V} END"),
        (1, "variant|try_variant_get({V}, '$[0]', 'variant')"),
        (1, "variant|{V}"),
    ),
    T.DBLS: ((1, "sign of zero|array({G}, - {G})"), (1, "sign of zero|reverse({d})")),
    T.DPAIR: ((1, "sign of zero|named_struct('d', {G}, 'f', {E})"), (1, "sign of zero|coalesce({p}, {p})")),
    T.DMAP: (
        (1, "sign of zero|map('a', {G}, 'b', - {G})"),
        (1, "map order|map_filter({m}, (mk, mv) -> mk <> 'a')"),
        (1, "sign of zero|transform_values({m}, (mk, mv) -> - mv)"),
    ),
    T.DKEYS: ((1, "map order|map(coalesce({I}, 7) + 0.5D, {I})"), (1, "map order|map_filter({k}, (mk, mv) -> mv > 1)")),
    T.FAR: ((1, "wide number|{Q}"), (1, "wide number|try_subtract({Q}, {Q})")),
    T.WIDE: ((1, "wide number|{W}"), (1, "wide number|try_multiply({W}, 3)")),
    T.TOP: ((1, "wide number|{H}"),),
}

_LETTERS: dict[str, T] = {
    "I": T.INT, "B": T.BIGINT, "N": T.DEC, "S": T.STR, "D": T.DATE, "Z": T.TS, "F": T.DBL,
    "A": T.INTS, "X": T.STRS, "U": T.STRUCT, "M": T.MAP, "G": T.SIGNED, "E": T.FLT, "Q": T.FAR, "W": T.WIDE, "H": T.TOP,
    "K": T.SMAP, "L": T.MAPS, "O": T.MMAP, "Y": T.BMAP, "V": T.VAR,
    "d": T.DBLS, "p": T.DPAIR, "m": T.DMAP, "k": T.DKEYS,
}  # fmt: skip
_PLAIN = {"i": T.INT, "n": T.DEC, "s": T.STR}


def _types(template: str) -> set[T]:
    """The types a template takes."""
    body = template.partition("|")[2]
    letters = {body[at + 1] for at, c in enumerate(body) if c == "{"} - {"l"}
    return {_LETTERS.get(x) or _PLAIN[x] for x in letters}


def fill(ctx: Context, refs: Refs, template: str, depth: int) -> str:
    tags, _, body = template.partition("|")
    if tags:
        ctx.tag(tags)
    parts = []
    at = 0
    while at < len(body):
        if body[at] == "{":
            letter = body[at + 1]
            if letter == "l":
                parts.append(literal(ctx.rnd, T.INT))
            elif letter in _PLAIN:
                parts.append(column(ctx, refs, _PLAIN[letter]))
            elif _LETTERS[letter] in (*NESTED, *ODD, *ZEROS, *ENDS):
                parts.append(column(ctx, refs, _LETTERS[letter]))
            else:
                parts.append(expression(ctx, refs, _LETTERS[letter], depth))
            at += 3
        else:
            parts.append(body[at])
            at += 1
    return "".join(parts)


def predicate(ctx: Context, refs: Refs, depth: int = 2) -> str:
    """A condition that is true, false or NULL for some rows each."""
    if depth > 0 and ctx.chance(0.2):
        word = ctx.rnd.choice(("AND", "OR", "OR", "OR"))
        return f"({predicate(ctx, refs, depth - 1)} {word} {predicate(ctx, refs, depth - 1)})"
    options = {
        "compare": 6.0, "is null": 1.5, "like": 1, "in list": 1.5, "between": 1, "boolean": 1, "not": 0.7,
        "higher-order function": 0.5, "array contains": 0.5, "distinct from": 0.3, "collation": 0.15,
    }  # fmt: skip
    there = {r.type for r in refs}
    for option, type_ in (("boolean", T.BOOL), ("array contains", T.INTS), ("higher-order function", T.INTS)):
        if type_ not in there and not ctx.asked(option):
            del options[option]
    chosen = ctx.pick(options)
    if chosen in ("like", "in list", "between", "higher-order function", "collation"):
        ctx.tag(chosen)
    type_ = _type_there(ctx, refs)
    if chosen == "is null":
        some = ctx.rnd.choice(refs).sql if refs else column(ctx, refs, T.INT)
        return f"{some} IS {ctx.rnd.choice(('', 'NOT '))}NULL"
    if chosen == "like":
        word = ctx.rnd.choice(("LIKE", "LIKE", "NOT LIKE"))
        return f"{expression(ctx, refs, T.STR, depth - 1)} {word} {ctx.rnd.choice(_PATTERNS)}"
    if chosen == "in list":
        values = ", ".join(literal(ctx.rnd, type_, null=ctx.chance(0.2)) for _ in range(ctx.rnd.randint(1, 3)))
        return f"{column(ctx, refs, type_)} {ctx.rnd.choice(('IN', 'IN', 'NOT IN'))} ({values})"
    if chosen == "between":
        low, high = _bounds(ctx, type_)
        if ctx.chance(0.2):
            high = column(ctx, refs, type_)
        return f"{expression(ctx, refs, type_, depth - 1)} BETWEEN {low} AND {high}"
    if chosen == "collation":
        operator = ctx.rnd.choice(("=", "<>", "<=", ">"))
        return f"{column(ctx, refs, T.STR)} COLLATE UTF8_LCASE {operator} {ctx.rnd.choice(('', 'A', 'Ab', 'C X'))!r}"
    if chosen == "boolean":
        found = column(ctx, refs, T.BOOL)
        return f"({found})" if ctx.chance(0.2) else found  # a name in parentheses can be a list of columns
    if chosen == "not":
        return f"NOT ({predicate(ctx, refs, depth - 1)})"
    if chosen == "higher-order function":
        form = ctx.rnd.choice(("exists({A}, e -> e > {l})", "forall({A}, e -> e < {l})", "exists({X}, e -> e = 'a')"))
        return fill(ctx, refs, f"higher-order function|{form}", 0)
    if chosen == "array contains":
        return fill(ctx, refs, "array access|array_contains({A}, {l})", 0)
    if chosen == "distinct from":
        return f"{column(ctx, refs, type_)} IS DISTINCT FROM {literal(ctx.rnd, type_)}"
    left = expression(ctx, refs, type_, depth)
    right = literal(ctx.rnd, type_) if ctx.chance(0.7) else expression(ctx, refs, type_, depth - 1)
    operator = ctx.rnd.choice(("=", "<>", "<>", "<", "<=", ">", ">=", ">=", "<=>"))
    return f"{left} {operator} {right}"


def _bounds(ctx: Context, type_: T) -> tuple[str, str]:
    """Two constants, the lower one first."""
    pool = constants(type_)
    one, two = sorted(ctx.rnd.sample(range(len(pool)), 2))
    cast = type_ is T.BIGINT
    return tuple(f"CAST({pool[n]} AS BIGINT)" if cast else pool[n] for n in (one, two))  # type: ignore[return-value]


_PATTERNS = ("'a%'", "'%b'", "'_'", "'%''%'", "'%'")


def _type_there(ctx: Context, refs: Refs) -> T:
    """A type with an order, one of the columns' if there is any."""
    there = [r.type for r in refs if r.type in _ORDERED]
    return ctx.rnd.choice(there) if there else ctx.rnd.choice(_ORDERED)


def comparable(refs: Refs) -> list[Ref]:
    return [r for r in refs if r.type in COMPARABLE]
