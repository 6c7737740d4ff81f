-- Only insertions into both sides of a join
-- query
SELECT a.k, b.w FROM a JOIN b ON a.id = b.a_id
-- steps
-- rows that enter
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
  SELECT `a_k` AS `k`, `b_w` AS `w`, `_t_w` FROM unionall_9
),
project_11 AS (
  SELECT `k`, `w`, `_t_w` FROM project_10
)
SELECT `k`, `w`, xxhash64(`k`, `w`) AS `_t_hash` FROM project_11
