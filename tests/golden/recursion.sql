-- A recursion below a join
-- query
WITH RECURSIVE r(id, w, level) AS (
  SELECT id, CAST(v AS BIGINT), 0 FROM a WHERE id < 9
  UNION ALL
  SELECT b.a_id, b.w, level + 1 FROM r JOIN b ON r.w = b.a_id WHERE level < 2)
SELECT r.id, r.level, a.v FROM r JOIN a ON r.id = a.id
-- delta
-- hidden _trickle.s__recursion__state1
-- level 0
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
filter_2 AS (
  SELECT `a_id`, `a_v`, `_t_w` FROM changes_1 WHERE `a_id` < 9
),
project_3 AS (
  SELECT `a_id` AS `id`, CAST(`a_v` AS BIGINT) AS `column`, 0 AS `column_2`, `_t_w` FROM filter_2
),
project_4 AS (
  SELECT `id` AS `r_id`, `column` AS `r_w`, `column_2` AS `r_level`, `_t_w` FROM project_3
)
SELECT `r_id`, `r_w`, `r_level`, `_t_w` FROM project_4;

-- every level, over the one before
WITH changes_1 AS (
  SELECT `r_id` AS `l_r_id`, `r_w` AS `l_r_w`, `r_level` AS `l_r_level`, `_t_w` FROM `changes of .previous level`
),
asof_2 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_3 AS (
  SELECT `l_r_id`, `l_r_w`, `l_r_level`, `_t_w`, `b_a_id`, `b_w` FROM changes_1
  JOIN asof_2 ON (`l_r_w` = `b_a_id`) AND (`l_r_level` < 2)
),
project_4 AS (
  SELECT `l_r_id`, `l_r_w`, `l_r_level`, `b_a_id`, `b_w`, `_t_w` FROM join_3
),
changes_5 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
asof_6 AS (
  SELECT `r_id` AS `l_r_id`, `r_w` AS `l_r_w`, `r_level` AS `l_r_level` FROM ``.`previous level` /* at the frontier */
),
join_7 AS (
  SELECT `b_a_id`, `b_w`, `_t_w`, `l_r_id`, `l_r_w`, `l_r_level` FROM changes_5
  JOIN asof_6 ON (`l_r_w` = `b_a_id`) AND (`l_r_level` < 2)
),
project_8 AS (
  SELECT `l_r_id`, `l_r_w`, `l_r_level`, `b_a_id`, `b_w`, `_t_w` FROM join_7
),
unionall_9 AS (
  SELECT `l_r_id`, `l_r_w`, `l_r_level`, `b_a_id`, `b_w`, `_t_w` FROM project_4
  UNION ALL SELECT `l_r_id`, `l_r_w`, `l_r_level`, `b_a_id`, `b_w`, `_t_w` FROM project_8
),
project_10 AS (
  SELECT `l_r_id`, `l_r_w`, `l_r_level`, `b_a_id`, `b_w`, `_t_w` FROM unionall_9
),
project_11 AS (
  SELECT `b_a_id` AS `a_id_2`, `b_w` AS `w`, `l_r_level` + 1 AS `column_3`, `_t_w` FROM project_10
),
project_12 AS (
  SELECT `a_id_2` AS `r_id`, `w` AS `r_w`, `column_3` AS `r_level`, `_t_w` FROM project_11
),
project_13 AS (
  SELECT CAST(`r_id` AS BIGINT) AS `r_id`, CAST(`r_w` AS BIGINT) AS `r_w`, CAST(`r_level` AS INT) AS `r_level`, `_t_w` FROM project_12
)
SELECT `r_id`, `r_w`, `r_level`, `_t_w` FROM project_13;

WITH changes_1 AS (
  SELECT `c0` AS `r_id`, `c1` AS `r_w`, `c2` AS `r_level`, `_t_w` FROM `changes of _trickle.s__recursion__state1`
),
asof_2 AS (
  SELECT `id` AS `a_id_3`, `v` AS `a_v_2` FROM `s`.`a`
),
join_3 AS (
  SELECT `r_id`, `r_w`, `r_level`, `_t_w`, `a_id_3`, `a_v_2` FROM changes_1
  JOIN asof_2 ON (`r_id` = `a_id_3`)
),
project_4 AS (
  SELECT `r_id`, `r_w`, `r_level`, `a_id_3`, `a_v_2`, `_t_w` FROM join_3
),
changes_5 AS (
  SELECT `id` AS `a_id_3`, `v` AS `a_v_2`, `_t_w` FROM `changes of s.a`
),
asof_6 AS (
  SELECT `c0` AS `r_id`, `c1` AS `r_w`, `c2` AS `r_level` FROM `_trickle`.`s__recursion__state1` /* at the frontier */
),
join_7 AS (
  SELECT `a_id_3`, `a_v_2`, `_t_w`, `r_id`, `r_w`, `r_level` FROM changes_5
  JOIN asof_6 ON (`r_id` = `a_id_3`)
),
project_8 AS (
  SELECT `r_id`, `r_w`, `r_level`, `a_id_3`, `a_v_2`, `_t_w` FROM join_7
),
unionall_9 AS (
  SELECT `r_id`, `r_w`, `r_level`, `a_id_3`, `a_v_2`, `_t_w` FROM project_4
  UNION ALL SELECT `r_id`, `r_w`, `r_level`, `a_id_3`, `a_v_2`, `_t_w` FROM project_8
),
project_10 AS (
  SELECT `r_id` AS `id_2`, `r_level` AS `level`, `a_v_2` AS `v`, `_t_w` FROM unionall_9
),
project_11 AS (
  SELECT `id_2` AS `id`, `level`, `v`, `_t_w` FROM project_10
)
SELECT `id`, `level`, `v`, `_t_w` FROM project_11
