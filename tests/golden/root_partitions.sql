-- Windows at the root: affected partitions from the new state, compared with storage
-- query
SELECT id, k, v, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM a
-- delta
-- affected keys
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_2 AS (
  SELECT `a_k` AS `p__key` FROM changes_1
),
distinct_3 AS (
  SELECT DISTINCT `p__key` FROM project_2
)
SELECT `p__key` FROM distinct_3;

-- their new rows
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
named_2 AS (
  SELECT `p__key` FROM `affected keys`
),
restrict_3 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_1 LEFT SEMI JOIN named_2 ON (`a_k`) <=> named_2.`p__key`
),
window_4 AS (
  SELECT `a_id`, `a_k`, `a_v`, rank() OVER (PARTITION BY `a_k` ORDER BY `a_v`) AS `w_rank` FROM restrict_3
),
project_5 AS (
  SELECT `a_id` AS `id`, `a_k` AS `k`, `a_v` AS `v`, `w_rank` AS `r` FROM window_4
)
SELECT `id`, `k`, `v`, `r` FROM project_5
