-- The first rows by a total order, below a join
-- query
SELECT x.id, x.v, b.w
FROM (SELECT id, v FROM a ORDER BY v DESC, id LIMIT 9 OFFSET 1) AS x JOIN b ON x.id = b.a_id
-- delta
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a`
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v` FROM asof_1
),
topk_3 AS (
  SELECT `id`, `v` FROM project_2 ORDER BY `v` DESC, `id` LIMIT 9 OFFSET 1
),
changes_4 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_5 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v`, `_t_w` FROM changes_4
),
restrict_6 AS (
  SELECT `id`, `v` FROM topk_3 WHERE EXISTS (SELECT 1 FROM project_5)
),
weigh_7 AS (
  SELECT `id`, `v`, 1L AS `_t_w` FROM restrict_6
),
asof_8 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a` /* at the frontier */
),
project_9 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v` FROM asof_8
),
topk_10 AS (
  SELECT `id`, `v` FROM project_9 ORDER BY `v` DESC, `id` LIMIT 9 OFFSET 1
),
restrict_11 AS (
  SELECT `id`, `v` FROM topk_10 WHERE EXISTS (SELECT 1 FROM project_5)
),
weigh_12 AS (
  SELECT `id`, `v`, -1L AS `_t_w` FROM restrict_11
),
unionall_13 AS (
  SELECT `id`, `v`, `_t_w` FROM weigh_7
  UNION ALL SELECT `id`, `v`, `_t_w` FROM weigh_12
),
asof_14 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_15 AS (
  SELECT `id`, `v`, `_t_w`, `b_a_id`, `b_w` FROM unionall_13
  JOIN asof_14 ON (`id` = `b_a_id`)
),
project_16 AS (
  SELECT `id`, `v`, `b_a_id`, `b_w`, `_t_w` FROM join_15
),
changes_17 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
join_18 AS (
  SELECT `b_a_id`, `b_w`, `_t_w`, `id`, `v` FROM changes_17
  JOIN topk_10 ON (`id` = `b_a_id`)
),
project_19 AS (
  SELECT `id`, `v`, `b_a_id`, `b_w`, `_t_w` FROM join_18
),
unionall_20 AS (
  SELECT `id`, `v`, `b_a_id`, `b_w`, `_t_w` FROM project_16
  UNION ALL SELECT `id`, `v`, `b_a_id`, `b_w`, `_t_w` FROM project_19
),
project_21 AS (
  SELECT `id` AS `id_2`, `v` AS `v_2`, `b_w` AS `w`, `_t_w` FROM unionall_20
),
project_22 AS (
  SELECT `id_2` AS `id`, `v_2` AS `v`, `w`, `_t_w` FROM project_21
)
SELECT `id`, `v`, `w`, `_t_w` FROM project_22
