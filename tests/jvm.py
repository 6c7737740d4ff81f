"""How the JVMs of tests compile: nearly every query here is new, so code is compiled fast rather than well."""

from __future__ import annotations

# The optimizing compiler takes a third of the CPU of such a process. 200 queries of the rules fuzzer: 123 s of CPU with
# it, 74 s without. The code cache would be 48 MB then, too small for Spark: the JVM would sweep it all the time.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
# Planning makes much short-lived garbage.
PLANNING_JAVA = f"{QUICK_JAVA} -Xmn1g"
