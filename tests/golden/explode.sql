-- A generator runs over the change
-- query
SELECT id, e.v FROM a LATERAL VIEW OUTER explode(array(v, id)) e AS v
-- delta
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
explode_2 AS (
  SELECT `a_id`, `a_v`, `v`, `_t_w` FROM changes_1 LATERAL VIEW OUTER explode(array(`a_v`, `a_id`)) `e` AS `v`
),
project_3 AS (
  SELECT `a_id` AS `id`, `v` AS `v_2`, `_t_w` FROM explode_2
),
project_4 AS (
  SELECT `id`, `v_2` AS `v`, `_t_w` FROM project_3
)
SELECT `id`, `v`, `_t_w` FROM project_4
