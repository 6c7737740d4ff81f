"""One file per operator. Each opens with its law, then says why updates, NULLs and duplicates come out right."""

from __future__ import annotations

from spark_trickle.delta.rules import aggregate as aggregate
from spark_trickle.delta.rules import constant as constant
from spark_trickle.delta.rules import distinct as distinct
from spark_trickle.delta.rules import explode as explode
from spark_trickle.delta.rules import filter as filter
from spark_trickle.delta.rules import join as join
from spark_trickle.delta.rules import matched as matched
from spark_trickle.delta.rules import outer_join as outer_join
from spark_trickle.delta.rules import project as project
from spark_trickle.delta.rules import recursion as recursion
from spark_trickle.delta.rules import scan as scan
from spark_trickle.delta.rules import top_k as top_k
from spark_trickle.delta.rules import union_all as union_all
from spark_trickle.delta.rules import window as window
