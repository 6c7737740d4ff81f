-- Three inputs, one of them twice: old states before the changing one, new states after it
-- query
SELECT x.id, x.k, b.w, y.v
FROM a AS x JOIN b ON x.k = b.k JOIN a AS y ON b.a_id = y.id
-- delta
WITH changes_1 AS (
  SELECT `id` AS `x_id`, `k` AS `x_k`, `_t_w` FROM `changes of s.a`
),
asof_2 AS (
  SELECT `a_id` AS `b_a_id`, `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b`
),
asof_3 AS (
  SELECT `id` AS `y_id`, `v` AS `y_v` FROM `s`.`a`
),
join_4 AS (
  SELECT `x_id`, `x_k`, `_t_w`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v` FROM changes_1
  JOIN asof_2 ON (`x_k` = `b_k`)
  JOIN asof_3 ON (`b_a_id` = `y_id`)
),
project_5 AS (
  SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v`, `_t_w` FROM join_4
),
changes_6 AS (
  SELECT `a_id` AS `b_a_id`, `k` AS `b_k`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
asof_7 AS (
  SELECT `id` AS `x_id`, `k` AS `x_k` FROM `s`.`a` /* at the frontier */
),
join_8 AS (
  SELECT `b_a_id`, `b_k`, `b_w`, `_t_w`, `x_id`, `x_k`, `y_id`, `y_v` FROM changes_6
  JOIN asof_7 ON (`x_k` = `b_k`)
  JOIN asof_3 ON (`b_a_id` = `y_id`)
),
project_9 AS (
  SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v`, `_t_w` FROM join_8
),
changes_10 AS (
  SELECT `id` AS `y_id`, `v` AS `y_v`, `_t_w` FROM `changes of s.a`
),
asof_11 AS (
  SELECT `a_id` AS `b_a_id`, `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b` /* at the frontier */
),
join_12 AS (
  SELECT `y_id`, `y_v`, `_t_w`, `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w` FROM changes_10
  JOIN asof_11 ON (`b_a_id` = `y_id`)
  JOIN asof_7 ON (`x_k` = `b_k`)
),
project_13 AS (
  SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v`, `_t_w` FROM join_12
),
unionall_14 AS (
  SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v`, `_t_w` FROM project_5
  UNION ALL SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v`, `_t_w` FROM project_9
  UNION ALL SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v`, `_t_w` FROM project_13
),
project_15 AS (
  SELECT `x_id` AS `id`, `x_k` AS `k`, `b_w` AS `w`, `y_v` AS `v`, `_t_w` FROM unionall_14
),
project_16 AS (
  SELECT `id`, `k`, `w`, `v`, `_t_w` FROM project_15
)
SELECT `id`, `k`, `w`, `v`, `_t_w` FROM project_16
