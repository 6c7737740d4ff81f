-- Expressions over a row; rows that become equal keep their weights
-- query
SELECT upper(k) AS letter, v % 3 AS rest FROM a
-- delta
WITH changes_1 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_2 AS (
  SELECT upper(`a_k`) AS `letter`, `a_v` % 3 AS `rest`, `_t_w` FROM changes_1
),
project_3 AS (
  SELECT `letter`, `rest`, `_t_w` FROM project_2
)
SELECT `letter`, `rest`, `_t_w` FROM project_3
