-- Windows below a join, where the root cannot keep them by partition
-- query
SELECT x.id, x.r, x.total, b.w
FROM (SELECT id, k, rank() OVER (PARTITION BY k ORDER BY v) AS r, sum(v) OVER (PARTITION BY k) AS total FROM a) AS x
JOIN b ON x.id = b.a_id
-- delta
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
changes_2 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_3 AS (
  SELECT `a_k` AS `p__key` FROM changes_2
),
distinct_4 AS (
  SELECT DISTINCT `p__key` FROM project_3
),
restrict_5 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_1 LEFT SEMI JOIN distinct_4 ON (`a_k`) <=> distinct_4.`p__key`
),
window_6 AS (
  SELECT `a_id`, `a_k`, `a_v`, rank() OVER (PARTITION BY `a_k` ORDER BY `a_v`) AS `w_rank`, sum(`a_v`) OVER (PARTITION BY `a_k`) AS `w_sum` FROM restrict_5
),
weigh_7 AS (
  SELECT `a_id`, `a_k`, `a_v`, `w_rank`, `w_sum`, 1L AS `_t_w` FROM window_6
),
asof_8 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` /* at the frontier */
),
restrict_9 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_8 LEFT SEMI JOIN distinct_4 ON (`a_k`) <=> distinct_4.`p__key`
),
window_10 AS (
  SELECT `a_id`, `a_k`, `a_v`, rank() OVER (PARTITION BY `a_k` ORDER BY `a_v`) AS `w_rank`, sum(`a_v`) OVER (PARTITION BY `a_k`) AS `w_sum` FROM restrict_9
),
weigh_11 AS (
  SELECT `a_id`, `a_k`, `a_v`, `w_rank`, `w_sum`, -1L AS `_t_w` FROM window_10
),
unionall_12 AS (
  SELECT `a_id`, `a_k`, `a_v`, `w_rank`, `w_sum`, `_t_w` FROM weigh_7
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `w_rank`, `w_sum`, `_t_w` FROM weigh_11
),
project_13 AS (
  SELECT `a_id` AS `id`, `w_rank` AS `r`, `w_sum` AS `total`, `_t_w` FROM unionall_12
),
asof_14 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_15 AS (
  SELECT `id`, `r`, `total`, `_t_w`, `b_a_id`, `b_w` FROM project_13
  JOIN asof_14 ON (`id` = `b_a_id`)
),
project_16 AS (
  SELECT `id`, `r`, `total`, `b_a_id`, `b_w`, `_t_w` FROM join_15
),
changes_17 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
window_18 AS (
  SELECT `a_id`, `a_k`, `a_v`, rank() OVER (PARTITION BY `a_k` ORDER BY `a_v`) AS `w_rank`, sum(`a_v`) OVER (PARTITION BY `a_k`) AS `w_sum` FROM asof_8
),
project_19 AS (
  SELECT `a_id` AS `id`, `w_rank` AS `r`, `w_sum` AS `total` FROM window_18
),
join_20 AS (
  SELECT `b_a_id`, `b_w`, `_t_w`, `id`, `r`, `total` FROM changes_17
  JOIN project_19 ON (`id` = `b_a_id`)
),
project_21 AS (
  SELECT `id`, `r`, `total`, `b_a_id`, `b_w`, `_t_w` FROM join_20
),
unionall_22 AS (
  SELECT `id`, `r`, `total`, `b_a_id`, `b_w`, `_t_w` FROM project_16
  UNION ALL SELECT `id`, `r`, `total`, `b_a_id`, `b_w`, `_t_w` FROM project_21
),
project_23 AS (
  SELECT `id` AS `id_2`, `r` AS `r_2`, `total` AS `total_2`, `b_w` AS `w`, `_t_w` FROM unionall_22
),
project_24 AS (
  SELECT `id_2` AS `id`, `r_2` AS `r`, `total_2` AS `total`, `w`, `_t_w` FROM project_23
)
SELECT `id`, `r`, `total`, `w`, `_t_w` FROM project_24
