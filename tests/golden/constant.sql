-- Rows that never change, joined
-- query
SELECT a.id, c.name FROM a JOIN (VALUES ('a', 'one'), ('b', 'two')) AS c(k, name) ON a.k = c.k
-- delta
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `_t_w` FROM `changes of s.a`
),
constant_2 AS (
  SELECT `c_k`, `c_name` FROM VALUES ('a', 'one'), ('b', 'two') AS `c`(`c_k`, `c_name`)
),
join_3 AS (
  SELECT `a_id`, `a_k`, `_t_w`, `c_k`, `c_name` FROM changes_1
  JOIN constant_2 ON (`a_k` = `c_k`)
),
project_4 AS (
  SELECT `a_id`, `a_k`, `c_k`, `c_name`, `_t_w` FROM join_3
),
empty_5 AS (
  SELECT NULL AS `c_k`, NULL AS `c_name`, NULL AS `_t_w` WHERE false
),
asof_6 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k` FROM `s`.`a` /* at the frontier */
),
join_7 AS (
  SELECT /*+ BROADCAST(empty_5) */ `c_k`, `c_name`, `_t_w`, `a_id`, `a_k` FROM empty_5
  JOIN asof_6 ON (`a_k` = `c_k`)
),
project_8 AS (
  SELECT `a_id`, `a_k`, `c_k`, `c_name`, `_t_w` FROM join_7
),
unionall_9 AS (
  SELECT `a_id`, `a_k`, `c_k`, `c_name`, `_t_w` FROM project_4
  UNION ALL SELECT `a_id`, `a_k`, `c_k`, `c_name`, `_t_w` FROM project_8
),
project_10 AS (
  SELECT `a_id` AS `id`, `c_name` AS `name`, `_t_w` FROM unionall_9
),
project_11 AS (
  SELECT `id`, `name`, `_t_w` FROM project_10
)
SELECT `id`, `name`, `_t_w` FROM project_11
