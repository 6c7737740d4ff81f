"""Counting outcomes, and saying what was found."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.fuzz.constructs import CONSTRUCTS
from tests.fuzz.world import Outcome, Verdict


@dataclass
class Tally:
    outcomes: list[Outcome] = field(default_factory=list)  # without twins
    twins: list[Outcome] = field(default_factory=list)
    rounds: int = 0

    def add(self, outcomes: list[Outcome]) -> None:
        self.rounds += 1
        for o in outcomes:
            (self.twins if o.twin else self.outcomes).append(o)

    def of(self, *verdicts: Verdict) -> list[Outcome]:
        return [o for o in self.outcomes if o.verdict in verdicts]

    @property
    def valid(self) -> list[Outcome]:
        return [o for o in self.outcomes if o.verdict not in (Verdict.INVALID, Verdict.RAISES)]

    @property
    def failures(self) -> list[Outcome]:
        return [o for o in (*self.outcomes, *self.twins) if o.failure]

    @property
    def share(self) -> float:
        """Of the queries that Spark runs, those that are maintained incrementally."""
        return len(self.of(Verdict.DIFFERENTIAL)) / max(len(self.valid), 1)

    def constructs(self) -> dict[str, tuple[int, float, float]]:
        """Construct -> queries, share of all queries, DIFFERENTIAL share of its queries."""
        found = {}
        for name in CONSTRUCTS:
            using = [o for o in self.valid if name in o.case.query.tags]
            differential = [o for o in using if o.verdict is Verdict.DIFFERENTIAL]
            share = len(differential) / len(using) if using else 0.0
            found[name] = (len(using), len(using) / max(len(self.valid), 1), share)
        return found

    def reasons(self) -> dict[str, list[str]]:
        """Reason -> the full reasons of queries that run FULL or are refused."""
        found: dict[str, list[str]] = defaultdict(list)
        for o in self.of(Verdict.FULL, Verdict.REFUSED):
            found[o.reason_code].append(o.reason)
        return dict(sorted(found.items(), key=lambda i: -len(i[1])))

    def figures(self, seed: int, seconds: float) -> dict[str, Any]:
        return {
            "seed": seed,
            "seconds": round(seconds, 1),
            "rounds": self.rounds,
            "queries": len(self.outcomes),
            "verdicts": Counter(str(o.verdict) for o in self.outcomes),
            "differential_share": round(self.share, 4),
            "comparisons": sum(o.compared for o in (*self.outcomes, *self.twins)),
            "differential_refreshes": sum(o.deltas for o in (*self.outcomes, *self.twins)),
            "empty": sum(1 for o in self.outcomes if o.compared and not o.rows),
            "twins": len(self.twins),
            "partitioned": sum(1 for o in self.outcomes if o.partitioned_by),
            "reasons": {r: len(all_) for r, all_ in self.reasons().items()},
            "constructs": {
                n: {"queries": q, "share": round(s, 4), "minimum": CONSTRUCTS[n].share, "differential": round(d, 4)}
                for n, (q, s, d) in self.constructs().items()
            },
            "failures": len(self.failures),
        }

    def text(self, seed: int, seconds: float) -> str:
        f = self.figures(seed, seconds)
        lines = ["", f"{'construct':28} queries   share  least  DIFFERENTIAL"]
        for name, (queries, share, differential) in self.constructs().items():
            least = CONSTRUCTS[name].share
            lines.append(f"{name:28} {queries:7} {share:7.1%} {least:6.1%} {differential:8.0%}")
        lines += ["", "FULL and refused, by reason:"]
        for reason, all_ in self.reasons().items():
            lines.append(f"  {len(all_):4} {reason}")
            for text, n in Counter(_general(r) for r in all_).most_common(3):
                lines.append(f"         {n:4} {text[:150]}")
            shortest = min((o.case.query.sql for o in self.outcomes if o.reason_code == reason), key=len)
            lines.append(f"              such as {shortest}")
        slow = sorted(self.outcomes, key=lambda o: -o.seconds.get("refresh", 0) / max(o.deltas, 1))[:3]
        lines += ["", "slowest DIFFERENTIAL refreshes:"]
        lines += [f"  {o.seconds.get('refresh', 0) / max(o.deltas, 1):.1f} s  {o.case.query.sql}" for o in slow]
        invalid, raises = self.of(Verdict.INVALID), self.of(Verdict.RAISES)
        lines += [f"invalid: {o.reason[:200]}\n    {o.case.query.sql}" for o in invalid]
        lines += [f"raises in Spark too: {o.reason[:200]}\n    {o.case.query.sql}" for o in raises]
        lines += [
            "",
            f"seed {seed}: {f['queries']} queries in {self.rounds} rounds and {seconds:.0f} s, {len(invalid)} invalid, "
            f"{len(raises)} raise in Spark too, {f['twins']} twins, "
            f"{f['partitioned']} partitioned",
            f"{f['comparisons']} comparisons after {f['differential_refreshes']} DIFFERENTIAL refreshes, "
            f"{f['empty']} queries always empty",
            f"DIFFERENTIAL: {self.share:.1%} of {len(self.valid)} valid queries",
            f"failures: {len(self.failures)}",
        ]
        return "\n".join(lines)


def _general(reason: str) -> str:
    """A reason without the place, so that equal ones are counted together."""
    head, _, rest = reason.partition(": ")
    return f"{head.split(' at ')[0]}: {rest}"
