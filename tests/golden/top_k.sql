-- The first rows by a total order, below a join
-- query
SELECT x.id, x.v, b.w
FROM (SELECT id, v FROM a ORDER BY v DESC, id LIMIT 9 OFFSET 1) AS x JOIN b ON x.id = b.a_id
-- delta
-- hidden _trickle.s__top_k__state1
-- affected keys
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v`, `__w` FROM `changes of s.a`
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v`, `a_v` AS `order`, `a_id` AS `order_2`, `__w` FROM changes_1
)
SELECT `id`, `v`, `order`, `order_2`, `__w` FROM project_2;

-- their new rows
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a`
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v`, `a_v` AS `order`, `a_id` AS `order_2` FROM asof_1
),
topk_3 AS (
  SELECT `id`, `v`, `order`, `order_2` FROM project_2 ORDER BY `order` DESC, `order_2` LIMIT 9 OFFSET 1
),
project_4 AS (
  SELECT `id` AS `c0`, `v` AS `c1`, `order` AS `c2`, `order_2` AS `c3` FROM topk_3
)
SELECT `c0`, `c1`, `c2`, `c3` FROM project_4;

WITH changes_1 AS (
  SELECT `c0` AS `id`, `c1` AS `v`, `c2` AS `order`, `c3` AS `order_2`, `__w` FROM `changes of _trickle.s__top_k__state1`
),
project_2 AS (
  SELECT `id`, `v`, `__w` FROM changes_1
),
asof_3 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_4 AS (
  SELECT `id`, `v`, `__w`, `b_a_id`, `b_w` FROM project_2
  JOIN asof_3 ON (`id` = `b_a_id`)
),
project_5 AS (
  SELECT `id`, `v`, `b_a_id`, `b_w`, `__w` FROM join_4
),
changes_6 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `__w` FROM `changes of s.b`
),
asof_7 AS (
  SELECT `c0` AS `id`, `c1` AS `v`, `c2` AS `order`, `c3` AS `order_2` FROM `_trickle`.`s__top_k__state1` /* at the frontier */
),
project_8 AS (
  SELECT `id`, `v` FROM asof_7
),
join_9 AS (
  SELECT `b_a_id`, `b_w`, `__w`, `id`, `v` FROM changes_6
  JOIN project_8 ON (`id` = `b_a_id`)
),
project_10 AS (
  SELECT `id`, `v`, `b_a_id`, `b_w`, `__w` FROM join_9
),
unionall_11 AS (
  SELECT `id`, `v`, `b_a_id`, `b_w`, `__w` FROM project_5
  UNION ALL SELECT `id`, `v`, `b_a_id`, `b_w`, `__w` FROM project_10
),
project_12 AS (
  SELECT `id` AS `id_2`, `v` AS `v_2`, `b_w` AS `w`, `__w` FROM unionall_11
),
project_13 AS (
  SELECT `id_2` AS `id`, `v_2` AS `v`, `w`, `__w` FROM project_12
)
SELECT `id`, `v`, `w`, `__w` FROM project_13
