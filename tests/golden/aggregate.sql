-- An aggregate below a join: the affected groups, old and new
-- query
SELECT t.k, t.total, b.w FROM (SELECT k, sum(v) AS total, count(*) AS n FROM a GROUP BY k) AS t JOIN b ON t.k = b.k
-- delta
WITH asof_1 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
changes_2 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_3 AS (
  SELECT `a_k` AS `k_k__key` FROM changes_2
),
distinct_4 AS (
  SELECT DISTINCT `k_k__key` FROM project_3
),
restrict_5 AS (
  SELECT `a_k`, `a_v` FROM asof_1 LEFT SEMI JOIN distinct_4 ON (`a_k`) <=> distinct_4.`k_k__key`
),
aggregate_6 AS (
  SELECT `a_k` AS `k_k`, sum(`a_v`) AS `a_sum` FROM restrict_5 GROUP BY 1
),
weigh_7 AS (
  SELECT `k_k`, `a_sum`, 1L AS `_t_w` FROM aggregate_6
),
asof_8 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` /* at the frontier */
),
restrict_9 AS (
  SELECT `a_k`, `a_v` FROM asof_8 LEFT SEMI JOIN distinct_4 ON (`a_k`) <=> distinct_4.`k_k__key`
),
aggregate_10 AS (
  SELECT `a_k` AS `k_k`, sum(`a_v`) AS `a_sum` FROM restrict_9 GROUP BY 1
),
weigh_11 AS (
  SELECT `k_k`, `a_sum`, -1L AS `_t_w` FROM aggregate_10
),
unionall_12 AS (
  SELECT `k_k`, `a_sum`, `_t_w` FROM weigh_7
  UNION ALL SELECT `k_k`, `a_sum`, `_t_w` FROM weigh_11
),
project_13 AS (
  SELECT `k_k` AS `k`, `a_sum` AS `total`, `_t_w` FROM unionall_12
),
asof_14 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b`
),
join_15 AS (
  SELECT `k`, `total`, `_t_w`, `b_k`, `b_w` FROM project_13
  JOIN asof_14 ON (`k` = `b_k`)
),
project_16 AS (
  SELECT `k`, `total`, `b_k`, `b_w`, `_t_w` FROM join_15
),
changes_17 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
aggregate_18 AS (
  SELECT `a_k` AS `k_k`, sum(`a_v`) AS `a_sum` FROM asof_8 GROUP BY 1
),
project_19 AS (
  SELECT `k_k` AS `k`, `a_sum` AS `total` FROM aggregate_18
),
join_20 AS (
  SELECT `b_k`, `b_w`, `_t_w`, `k`, `total` FROM changes_17
  JOIN project_19 ON (`k` = `b_k`)
),
project_21 AS (
  SELECT `k`, `total`, `b_k`, `b_w`, `_t_w` FROM join_20
),
unionall_22 AS (
  SELECT `k`, `total`, `b_k`, `b_w`, `_t_w` FROM project_16
  UNION ALL SELECT `k`, `total`, `b_k`, `b_w`, `_t_w` FROM project_21
),
project_23 AS (
  SELECT `k` AS `k_2`, `total` AS `total_2`, `b_w` AS `w`, `_t_w` FROM unionall_22
),
project_24 AS (
  SELECT `k_2` AS `k`, `total_2` AS `total`, `w`, `_t_w` FROM project_23
)
SELECT `k`, `total`, `w`, `_t_w` FROM project_24
