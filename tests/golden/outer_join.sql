-- Every row of the left side stays; both sides and the condition's form are free, here a full join with a range
-- query
SELECT a.id, a.v, b.w, b.k AS bk
FROM a FULL JOIN b ON a.k = b.k AND a.v < b.w
-- delta
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
asof_2 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b`
),
outerjoin_3 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w`, `b_k`, `b_w` FROM changes_1 LEFT OUTER JOIN asof_2 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
project_4 AS (
  SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM outerjoin_3
),
changes_5 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
asof_6 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` /* at the frontier */
),
join_7 AS (
  SELECT `b_k`, `b_w`, `_t_w`, `a_id`, `a_k`, `a_v` FROM changes_5
  JOIN asof_6 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
project_8 AS (
  SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM join_7
),
matched_9 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_6 LEFT SEMI JOIN changes_5 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
matched_10 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_9 LEFT ANTI JOIN asof_2 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
weigh_11 AS (
  SELECT `a_id`, `a_k`, `a_v`, 1L AS `_t_w` FROM matched_10
),
project_12 AS (
  SELECT `a_id`, `a_k`, `a_v`, NULL AS `b_k`, NULL AS `b_w`, `_t_w` FROM weigh_11
),
asof_13 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b` /* at the frontier */
),
matched_14 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_9 LEFT ANTI JOIN asof_13 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
weigh_15 AS (
  SELECT `a_id`, `a_k`, `a_v`, -1L AS `_t_w` FROM matched_14
),
project_16 AS (
  SELECT `a_id`, `a_k`, `a_v`, NULL AS `b_k`, NULL AS `b_w`, `_t_w` FROM weigh_15
),
matched_17 AS (
  SELECT `b_k`, `b_w` FROM asof_13 LEFT SEMI JOIN changes_1 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
weigh_18 AS (
  SELECT `b_k`, `b_w`, 1L AS `_t_w` FROM matched_17
),
unionall_19 AS (
  SELECT `b_k`, `b_w`, `_t_w` FROM changes_5
  UNION ALL SELECT `b_k`, `b_w`, `_t_w` FROM weigh_18
),
asof_20 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
matched_21 AS (
  SELECT `b_k`, `b_w`, `_t_w` FROM unionall_19 LEFT ANTI JOIN asof_20 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
matched_22 AS (
  SELECT `b_k`, `b_w` FROM matched_17 LEFT ANTI JOIN asof_6 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
weigh_23 AS (
  SELECT `b_k`, `b_w`, -1L AS `_t_w` FROM matched_22
),
unionall_24 AS (
  SELECT `b_k`, `b_w`, `_t_w` FROM matched_21
  UNION ALL SELECT `b_k`, `b_w`, `_t_w` FROM weigh_23
),
project_25 AS (
  SELECT NULL AS `a_id`, NULL AS `a_k`, NULL AS `a_v`, `b_k`, `b_w`, `_t_w` FROM unionall_24
),
unionall_26 AS (
  SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM project_4
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM project_8
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM project_12
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM project_16
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM project_25
),
project_27 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v`, `b_w` AS `w`, `b_k` AS `bk`, `_t_w` FROM unionall_26
),
project_28 AS (
  SELECT `id`, `v`, `w`, `bk`, `_t_w` FROM project_27
)
SELECT `id`, `v`, `w`, `bk`, `_t_w` FROM project_28
