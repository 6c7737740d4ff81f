-- Only insertions: what enters is written, nothing is looked up
-- query
SELECT id, upper(k) AS k FROM a WHERE v > 2
-- steps
-- rows that enter
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
filter_2 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM changes_1 WHERE `a_v` > 2
),
project_3 AS (
  SELECT `a_id` AS `id`, upper(`a_k`) AS `k`, `_t_w` FROM filter_2
),
project_4 AS (
  SELECT `id`, `k`, `_t_w` FROM project_3
)
SELECT `id`, `k`, xxhash64(`id`, `k`) AS `_t_hash` FROM project_4
