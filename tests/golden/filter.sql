-- A filter looks at each version of a row by itself
-- query
SELECT * FROM a WHERE v > 2 OR k IS NULL
-- delta
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
filter_2 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM changes_1 WHERE `a_v` > 2 OR `a_k` IS NULL
),
project_3 AS (
  SELECT `a_id` AS `id`, `a_k` AS `k`, `a_v` AS `v`, `_t_w` FROM filter_2
),
project_4 AS (
  SELECT `id`, `k`, `v`, `_t_w` FROM project_3
)
SELECT `id`, `k`, `v`, `_t_w` FROM project_4
