-- DISTINCT below a join: the rows that appeared or disappeared
-- query
SELECT d.k, b.w FROM (SELECT DISTINCT k FROM a WHERE v > 1) AS d JOIN b ON d.k = b.k
-- delta
WITH asof_1 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
filter_2 AS (
  SELECT `a_k`, `a_v` FROM asof_1 WHERE `a_v` > 1
),
project_3 AS (
  SELECT `a_k` AS `k` FROM filter_2
),
changes_4 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
filter_5 AS (
  SELECT `a_k`, `a_v`, `_t_w` FROM changes_4 WHERE `a_v` > 1
),
project_6 AS (
  SELECT `a_k` AS `k`, `_t_w` FROM filter_5
),
project_7 AS (
  SELECT `k` AS `k__key` FROM project_6
),
distinct_8 AS (
  SELECT DISTINCT `k__key` FROM project_7
),
restrict_9 AS (
  SELECT `k` FROM project_3 LEFT SEMI JOIN distinct_8 ON (`k`) <=> distinct_8.`k__key`
),
aggregate_10 AS (
  SELECT `k` FROM restrict_9 GROUP BY 1
),
weigh_11 AS (
  SELECT `k`, 1L AS `_t_w` FROM aggregate_10
),
asof_12 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` /* at the frontier */
),
filter_13 AS (
  SELECT `a_k`, `a_v` FROM asof_12 WHERE `a_v` > 1
),
project_14 AS (
  SELECT `a_k` AS `k` FROM filter_13
),
restrict_15 AS (
  SELECT `k` FROM project_14 LEFT SEMI JOIN distinct_8 ON (`k`) <=> distinct_8.`k__key`
),
aggregate_16 AS (
  SELECT `k` FROM restrict_15 GROUP BY 1
),
weigh_17 AS (
  SELECT `k`, -1L AS `_t_w` FROM aggregate_16
),
unionall_18 AS (
  SELECT `k`, `_t_w` FROM weigh_11
  UNION ALL SELECT `k`, `_t_w` FROM weigh_17
),
asof_19 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b`
),
join_20 AS (
  SELECT `k`, `_t_w`, `b_k`, `b_w` FROM unionall_18
  JOIN asof_19 ON (`k` = `b_k`)
),
project_21 AS (
  SELECT `k`, `b_k`, `b_w`, `_t_w` FROM join_20
),
changes_22 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
distinct_23 AS (
  SELECT DISTINCT `k` FROM project_14
),
join_24 AS (
  SELECT `b_k`, `b_w`, `_t_w`, `k` FROM changes_22
  JOIN distinct_23 ON (`k` = `b_k`)
),
project_25 AS (
  SELECT `k`, `b_k`, `b_w`, `_t_w` FROM join_24
),
unionall_26 AS (
  SELECT `k`, `b_k`, `b_w`, `_t_w` FROM project_21
  UNION ALL SELECT `k`, `b_k`, `b_w`, `_t_w` FROM project_25
),
project_27 AS (
  SELECT `k` AS `k_2`, `b_w` AS `w`, `_t_w` FROM unionall_26
),
project_28 AS (
  SELECT `k_2` AS `k`, `w`, `_t_w` FROM project_27
)
SELECT `k`, `w`, `_t_w` FROM project_28
