-- A recursion below a join
-- query
WITH RECURSIVE r(id, w, level) AS (
  SELECT id, CAST(v AS BIGINT), 0 FROM a WHERE id < 9
  UNION ALL
  SELECT b.a_id, b.w, level + 1 FROM r JOIN b ON r.w = b.a_id WHERE level < 2)
SELECT r.id, r.level, a.v FROM r JOIN a ON r.id = a.id
-- delta
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a`
),
filter_2 AS (
  SELECT `a_id`, `a_v` FROM asof_1 WHERE `a_id` < 9
),
project_3 AS (
  SELECT `a_id` AS `id`, CAST(`a_v` AS BIGINT) AS `column`, 0 AS `column_2` FROM filter_2
),
project_4 AS (
  SELECT `id` AS `r_id`, `column` AS `r_w`, `column_2` AS `r_level` FROM project_3
),
asof_5 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
recursion_6 AS (
  WITH RECURSIVE level_r(`r_id`, `r_w`, `r_level`) AS (SELECT `r_id`, `r_w`, `r_level` FROM project_4 UNION ALL SELECT `a_id_2` AS `r_id`, `w` AS `r_w`, `column_3` AS `r_level` FROM (SELECT `b_a_id` AS `a_id_2`, `b_w` AS `w`, `l_r_level` + 1 AS `column_3` FROM (SELECT `l_r_id`, `l_r_w`, `l_r_level`, `b_a_id`, `b_w` FROM (SELECT `r_id` AS `l_r_id`, `r_w` AS `l_r_w`, `r_level` AS `l_r_level` FROM level_r) AS step_1
  JOIN asof_5 ON (`l_r_w` = `b_a_id`) AND (`l_r_level` < 2)) AS step_2) AS step_3) SELECT `r_id`, `r_w`, `r_level` FROM level_r
),
changes_7 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v`, `__w` FROM `changes of s.a`
),
project_8 AS (
  SELECT 1 AS `changed` FROM changes_7
),
changes_9 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `__w` FROM `changes of s.b`
),
project_10 AS (
  SELECT 1 AS `changed` FROM changes_9
),
unionall_11 AS (
  SELECT `changed` FROM project_8
  UNION ALL SELECT `changed` FROM project_10
),
asof_12 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a` /* at the frontier */
),
filter_13 AS (
  SELECT `a_id`, `a_v` FROM asof_12 WHERE `a_id` < 9
),
project_14 AS (
  SELECT `a_id` AS `id`, CAST(`a_v` AS BIGINT) AS `column`, 0 AS `column_2` FROM filter_13
),
project_15 AS (
  SELECT `id` AS `r_id`, `column` AS `r_w`, `column_2` AS `r_level` FROM project_14
),
asof_16 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b` /* at the frontier */
),
recursion_17 AS (
  WITH RECURSIVE level_r(`r_id`, `r_w`, `r_level`) AS (SELECT `r_id`, `r_w`, `r_level` FROM project_15 UNION ALL SELECT `a_id_2` AS `r_id`, `w` AS `r_w`, `column_3` AS `r_level` FROM (SELECT `b_a_id` AS `a_id_2`, `b_w` AS `w`, `l_r_level` + 1 AS `column_3` FROM (SELECT `l_r_id`, `l_r_w`, `l_r_level`, `b_a_id`, `b_w` FROM (SELECT `r_id` AS `l_r_id`, `r_w` AS `l_r_w`, `r_level` AS `l_r_level` FROM level_r) AS step_6
  JOIN asof_16 ON (`l_r_w` = `b_a_id`) AND (`l_r_level` < 2)) AS step_7) AS step_8) SELECT `r_id`, `r_w`, `r_level` FROM level_r
),
asof_18 AS (
  SELECT `id` AS `a_id_3`, `v` AS `a_v_2` FROM `s`.`a`
),
changes_19 AS (
  SELECT `id` AS `a_id_3`, `v` AS `a_v_2`, `__w` FROM `changes of s.a`
),
recursion_20 AS (
  WITH RECURSIVE level_r(`r_id`, `r_w`, `r_level`) AS (SELECT `r_id`, `r_w`, `r_level` FROM project_15 UNION ALL SELECT `a_id_2` AS `r_id`, `w` AS `r_w`, `column_3` AS `r_level` FROM (SELECT `b_a_id` AS `a_id_2`, `b_w` AS `w`, `l_r_level` + 1 AS `column_3` FROM (SELECT `l_r_id`, `l_r_w`, `l_r_level`, `b_a_id`, `b_w` FROM (SELECT `r_id` AS `l_r_id`, `r_w` AS `l_r_w`, `r_level` AS `l_r_level` FROM level_r) AS step_14
  JOIN asof_16 ON (`l_r_w` = `b_a_id`) AND (`l_r_level` < 2)) AS step_15) AS step_16) SELECT `r_id`, `r_w`, `r_level` FROM level_r
)
SELECT `id`, `level`, `v`, `__w` FROM (SELECT `id_2` AS `id`, `level`, `v`, `__w` FROM (SELECT `r_id` AS `id_2`, `r_level` AS `level`, `a_v_2` AS `v`, `__w` FROM (SELECT `r_id`, `r_w`, `r_level`, `a_id_3`, `a_v_2`, `__w` FROM (SELECT `r_id`, `r_w`, `r_level`, `a_id_3`, `a_v_2`, `__w` FROM (SELECT `r_id`, `r_w`, `r_level`, `__w`, `a_id_3`, `a_v_2` FROM (SELECT `r_id`, `r_w`, `r_level`, `__w` FROM (SELECT `r_id`, `r_w`, `r_level`, 1L AS `__w` FROM (SELECT `r_id`, `r_w`, `r_level` FROM recursion_6 WHERE EXISTS (SELECT 1 FROM unionall_11)) AS step_4) AS step_5
  UNION ALL SELECT `r_id`, `r_w`, `r_level`, `__w` FROM (SELECT `r_id`, `r_w`, `r_level`, -1L AS `__w` FROM (SELECT `r_id`, `r_w`, `r_level` FROM recursion_17 WHERE EXISTS (SELECT 1 FROM unionall_11)) AS step_9) AS step_10) AS step_11
  JOIN asof_18 ON (`r_id` = `a_id_3`)) AS step_12) AS step_13
  UNION ALL SELECT `r_id`, `r_w`, `r_level`, `a_id_3`, `a_v_2`, `__w` FROM (SELECT `r_id`, `r_w`, `r_level`, `a_id_3`, `a_v_2`, `__w` FROM (SELECT `a_id_3`, `a_v_2`, `__w`, `r_id`, `r_w`, `r_level` FROM changes_19
  JOIN recursion_20 ON (`r_id` = `a_id_3`)) AS step_17) AS step_18) AS step_19) AS step_20) AS step_21
