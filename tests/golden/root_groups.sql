-- At the root, groups that HAVING may hide: the affected ones are computed anew
-- query
SELECT a.k, avg(b.w) AS mean, count(DISTINCT b.w) AS kinds FROM a JOIN b ON a.id = b.a_id GROUP BY a.k HAVING count(*) > 1
-- delta
-- affected keys
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `_t_w` FROM `changes of s.a`
),
asof_2 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_3 AS (
  SELECT `a_id`, `a_k`, `_t_w`, `b_a_id`, `b_w` FROM changes_1
  JOIN asof_2 ON (`a_id` = `b_a_id`)
),
project_4 AS (
  SELECT `a_id`, `a_k`, `b_a_id`, `b_w`, `_t_w` FROM join_3
),
changes_5 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
asof_6 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k` FROM `s`.`a` /* at the frontier */
),
join_7 AS (
  SELECT `b_a_id`, `b_w`, `_t_w`, `a_id`, `a_k` FROM changes_5
  JOIN asof_6 ON (`a_id` = `b_a_id`)
),
project_8 AS (
  SELECT `a_id`, `a_k`, `b_a_id`, `b_w`, `_t_w` FROM join_7
),
unionall_9 AS (
  SELECT `a_id`, `a_k`, `b_a_id`, `b_w`, `_t_w` FROM project_4
  UNION ALL SELECT `a_id`, `a_k`, `b_a_id`, `b_w`, `_t_w` FROM project_8
),
project_10 AS (
  SELECT `a_k` AS `k_k__key` FROM unionall_9
),
distinct_11 AS (
  SELECT DISTINCT `k_k__key` FROM project_10
)
SELECT `k_k__key` FROM distinct_11;

-- their new rows
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k` FROM `s`.`a`
),
asof_2 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_3 AS (
  SELECT `a_id`, `a_k`, `b_a_id`, `b_w` FROM asof_1
  JOIN asof_2 ON (`a_id` = `b_a_id`)
),
named_4 AS (
  SELECT `k_k__key` FROM `affected keys`
),
restrict_5 AS (
  SELECT `a_id`, `a_k`, `b_a_id`, `b_w` FROM join_3 LEFT SEMI JOIN named_4 ON (`a_k`) <=> named_4.`k_k__key`
),
aggregate_6 AS (
  SELECT `a_k` AS `k_k`, avg(`b_w`) AS `a_avg`, count(DISTINCT `b_w`) AS `a_count`, count(*) AS `a_count_2` FROM restrict_5 GROUP BY 1
),
filter_7 AS (
  SELECT `k_k`, `a_avg`, `a_count`, `a_count_2` FROM aggregate_6 WHERE (`a_count_2` > 1)
),
project_8 AS (
  SELECT `k_k` AS `k`, `a_avg` AS `mean`, `a_count` AS `kinds` FROM filter_7
)
SELECT `k`, `mean`, `kinds` FROM project_8
