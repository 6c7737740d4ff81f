-- A table as it is: its change feed
-- query
SELECT * FROM a
-- delta
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_k` AS `k`, `a_v` AS `v`, `_t_w` FROM changes_1
),
project_3 AS (
  SELECT `id`, `k`, `v`, `_t_w` FROM project_2
)
SELECT `id`, `k`, `v`, `_t_w` FROM project_3
