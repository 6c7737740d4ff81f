"""What Spark takes from the spelling of a query: stars, and the fields of a struct that are named after columns.

Our columns have names of their own, so both are written out before columns are renamed: `struct(a, b + 1)` becomes
`named_struct('a', a, 'col2', b + 1)`, and `count(DISTINCT *)` lists the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from spark_trickle.sql.scalar import Scalar, call, field, text
from spark_trickle.sql.scope import Output, Scope, Unresolved, Visible

SHOWN, POSITION = "shown", "position"  # kept in the meta data of an argument: its name, and where it was written

# The type of a scalar over the rows of the query; None where nobody can tell.
TypeOf = Callable[[Scalar], str | None]

# A column of a star: the name it is shown under, and its value.
Starred = tuple[str, Scalar]


def is_star(node: exp.Expr) -> bool:
    """`*` or `t.*`."""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))


def is_counted(node: exp.Expr) -> bool:
    """Whether this is the star of count(*), which counts rows and means no columns."""
    parent = node.parent
    if not isinstance(node, exp.Star) or node.args.get("except_") or not isinstance(parent, exp.Anonymous):
        return False
    return parent.name.lower() == "count" and len(parent.expressions) == 1


def expand(star: exp.Expr, scope: Scope, type_of: TypeOf) -> tuple[Starred, ...]:
    """The columns of `*`, of `t.*` where t is a table or a struct, and of both with EXCEPT."""
    inner = star.this if isinstance(star, exp.Column) else star
    qualifier = tuple(p.name for p in star.parts[:-1]) if isinstance(star, exp.Column) else ()
    dropped = [tuple(p.name for p in d.parts) for d in inner.args.get("except_") or ()]
    left: list[Starred] = []
    columns, seen = _columns(qualifier, scope, type_of)
    for shown, scalar in columns:
        rests = [_after(shown, scalar, parts, seen) for parts in dropped]
        paths = [rest for rest in rests if rest is not None]
        if () not in paths:
            left.append((shown, _pruned(scalar, paths, type_of) if paths else scalar))
    return tuple(left)


def _columns(qualifier: tuple[str, ...], scope: Scope, type_of: TypeOf) -> tuple[tuple[Starred, ...], Scope | None]:
    """The columns, and what names in EXCEPT are looked up in: of a struct's star only its fields have names."""
    try:
        outputs = scope.expand(qualifier)
        seen = Scope([Visible(qualifier, outputs)], list(outputs)) if qualifier else scope
        return tuple((o.shown, _column(o)) for o in outputs), seen
    except Unresolved:
        found = scope.resolve(qualifier)
        struct = Scalar(found) if found is not None else None
        names = _fields(struct, type_of) if struct is not None else ()
        if struct is None or not names:
            raise
        return tuple((n, field(struct, n)) for n in names), None


def _column(output: Output) -> Scalar:
    return Scalar(exp.Column(this=exp.Identifier(this=output.name, quoted=True)))


def _fields(struct: Scalar, type_of: TypeOf) -> tuple[str, ...]:
    kind = type_of(struct)
    if kind is None or not kind.startswith("struct<"):
        return ()
    return tuple(f.name for f in exp.DataType.build(kind, dialect="spark").expressions)


def _after(shown: str, scalar: Scalar, parts: tuple[str, ...], scope: Scope | None) -> tuple[str, ...] | None:
    """What of a name in EXCEPT is left after this column: () is the column itself, None another column."""
    if scope is None or len(parts) == 1:
        return parts[1:] if shown.lower() == parts[0].lower() else None
    base = scope.resolve(parts)
    fields: list[str] = []
    while isinstance(base, exp.Dot):
        fields.insert(0, base.expression.name)
        base = base.this
    return tuple(fields) if base is not None and Scalar(base) == scalar else None


def _pruned(struct: Scalar, paths: Sequence[tuple[str, ...]], type_of: TypeOf) -> Scalar:
    """The struct without the fields at these paths."""
    parts: list[Scalar] = []
    names = _fields(struct, type_of)
    if not names:
        raise Unresolved(f"the fields of {struct}")
    for name in names:
        inside = [p[1:] for p in paths if p[0].lower() == name.lower()]
        if () not in inside:
            value = field(struct, name)
            parts += [text(name), _pruned(value, inside, type_of) if inside else value]
    return call("named_struct", *parts)


# -- structs that take the names of their arguments -------------------------------------------------------------------


def name_fields(holder: exp.Expr) -> None:
    """Calls that name fields after their arguments get the names as literals. Stars in them are columns by now."""
    for node in reversed(list(holder.walk(bfs=False))):
        name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if name == "struct" or isinstance(node, exp.Tuple):
            node.replace(_struct(node.expressions))
        elif name == "arrays_zip" and node.expressions:
            node.replace(_zipped(node.expressions))


def _struct(args: Sequence[exp.Expr]) -> exp.Expr:
    parts: list[exp.Expr] = []
    for at, arg in enumerate(args):
        parts += [exp.Literal.string(_name(arg) or f"col{_position(arg, at) + 1}"), arg.unalias().copy()]
    return exp.Anonymous(this="named_struct", expressions=parts)


def _zipped(args: Sequence[exp.Expr]) -> exp.Expr:
    """The fields of arrays_zip cannot be named, so its arguments lose their names and its elements get them."""
    bare = [exp.Anonymous(this="coalesce", expressions=[a.copy()]) for a in args]
    element = exp.Identifier(this="zipped", quoted=True)
    parts: list[exp.Expr] = []
    for at, arg in enumerate(args):
        value = exp.Dot(this=element.copy(), expression=exp.Identifier(this=str(at), quoted=True))
        parts += [exp.Literal.string(_name(arg) or str(_position(arg, at))), value]
    each = exp.Lambda(this=exp.Anonymous(this="named_struct", expressions=parts), expressions=[element])
    return exp.Anonymous(this="transform", expressions=[exp.Anonymous(this="arrays_zip", expressions=bare), each])


def _position(arg: exp.Expr, at: int) -> int:
    """Where the argument was written: a star before it counts once."""
    return int(arg.meta.get(POSITION, at))


def _name(arg: exp.Expr) -> str:
    """The name Spark gives a field: an alias, a column, a field or a key of a map; "" for anything else."""
    if isinstance(arg, exp.Alias):
        return str(arg.alias)
    inner = arg.unnest()
    if SHOWN in inner.meta:
        return str(inner.meta[SHOWN])
    if isinstance(inner, exp.Column | exp.Identifier):
        return str(inner.name)
    if isinstance(inner, exp.Dot):
        return str(inner.expression.name)
    if isinstance(inner, exp.Bracket) and len(inner.expressions) == 1 and inner.expressions[0].is_string:
        return str(inner.expressions[0].name)
    return ""
