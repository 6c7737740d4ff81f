"""Numbers, times and names as the page writes them. Pure. `age` is written a second time in static/page.js."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote


def age(seconds: float) -> str:
    """
    >>> [age(s) for s in (-1, 0.4, 59.9, 60, 252, 3600, 11_530, 187_300)]
    ['0 s', '0 s', '59 s', '1 min', '4 min 12 s', '1 h', '3 h 12 min', '2 d 4 h']
    """
    whole = max(0, int(seconds))
    for unit, size, lower, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {lower}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def took(seconds: float | None) -> str:
    """
    >>> [took(s) for s in (None, 0.0042, 0.349, 4.26, 42.4, 252)]
    ['', '4 ms', '349 ms', '4.3 s', '42 s', '4 min 12 s']
    """
    if seconds is None:
        return ""
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 9.95 else age(round(seconds))


def exact(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def count(number: int, noun: str, plural: str = "") -> str:
    """
    >>> count(1, "row"), count(12345, "row"), count(0, "refresh", "refreshes")
    ('1 row', '12,345 rows', '0 refreshes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def listed(names: tuple[str, ...], most: int = 4) -> str:
    """
    >>> listed(("a",)), listed(("a", "b", "c")), listed(("a", "b", "c", "d"), 2)
    ('a', 'a, b and c', 'a, b and 2 more')
    """
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most:,} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def path_of(name: str) -> str:
    """The page of a stream table: the name is one segment, whatever is in it.

    >>> path_of("shop.a/b <c>?")
    '/stream-tables/shop.a%2Fb%20%3Cc%3E%3F'
    """
    return f"/stream-tables/{quote(name, safe='')}"
