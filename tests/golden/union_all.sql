-- Branches of different types: each is cast to the common type
-- query
SELECT id, v AS n FROM a UNION ALL SELECT a_id, w FROM b
-- delta
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_v` AS `n`, `_t_w` FROM changes_1
),
project_3 AS (
  SELECT `id` AS `u_id`, `n` AS `u_n`, `_t_w` FROM project_2
),
project_4 AS (
  SELECT `u_id`, CAST(`u_n` AS BIGINT) AS `u_n`, `_t_w` FROM project_3
),
changes_5 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
project_6 AS (
  SELECT `b_a_id` AS `a_id_2`, `b_w` AS `w`, `_t_w` FROM changes_5
),
project_7 AS (
  SELECT `a_id_2` AS `u_id`, `w` AS `u_n`, `_t_w` FROM project_6
),
project_8 AS (
  SELECT CAST(`u_id` AS BIGINT) AS `u_id`, `u_n`, `_t_w` FROM project_7
),
unionall_9 AS (
  SELECT `u_id`, `u_n`, `_t_w` FROM project_4
  UNION ALL SELECT `u_id`, `u_n`, `_t_w` FROM project_8
),
project_10 AS (
  SELECT `u_id` AS `id`, `u_n` AS `n`, `_t_w` FROM unionall_9
)
SELECT `id`, `n`, `_t_w` FROM project_10
