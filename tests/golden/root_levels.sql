-- A recursion, level by level
-- query
WITH RECURSIVE r(id, n) AS (SELECT id, 0 FROM a WHERE v = 1 UNION ALL SELECT b.w, r.n + 1 FROM r JOIN b ON b.a_id = r.id WHERE r.n < 2) SELECT id, n FROM r
-- delta
-- hidden _trickle.s__root_levels__state1

-- changes of s.a
CREATE OR REPLACE TEMPORARY VIEW `changes of s.a` AS
WITH asof_1 AS (
  SELECT `id` AS `id`, `v` AS `v` FROM `s`.`a`
),
asof_2 AS (
  SELECT `id` AS `id`, `v` AS `v` FROM `s`.`a` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `id`, `v`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `id`, `v`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `id`, `v`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2
)
SELECT `id`, `v`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

-- changes of s.b
CREATE OR REPLACE TEMPORARY VIEW `changes of s.b` AS
WITH asof_1 AS (
  SELECT `a_id` AS `a_id`, `w` AS `w` FROM `s`.`b`
),
asof_2 AS (
  SELECT `a_id` AS `a_id`, `w` AS `w` FROM `s`.`b` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `a_id`, `w`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `a_id`, `w`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `a_id`, `w`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2
)
SELECT `a_id`, `w`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

-- stored rows of _trickle.s__root_levels__state1
CREATE OR REPLACE TEMPORARY VIEW `stored rows of _trickle.s__root_levels__state1` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
project_2 AS (
  SELECT `a_id` AS `id`, 0 AS `column` FROM asof_1 WHERE `a_v` = 1
),
project_3 AS (
  SELECT `id` AS `r_id`, `column` AS `r_n` FROM project_2
),
project_4 AS (
  SELECT `r_id`, `r_n`, CAST(0 AS INT) AS `_t_level` FROM project_3
),
asof_5 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
recursion_6 AS (
  WITH RECURSIVE level_r(`r_id`, `r_n`, `_t_level`) AS (SELECT `r_id`, `r_n`, `_t_level` FROM project_4 UNION ALL SELECT `r_id`, `r_n`, `_t_level_of_step` + 1 AS `_t_level` FROM (SELECT CAST(`r_id` AS BIGINT) AS `r_id`, CAST(`r_n` AS INT) AS `r_n`, `_t_level_of_step` FROM (SELECT `w` AS `r_id`, `column_2` AS `r_n`, `_t_level_of_step` FROM (SELECT `b_w` AS `w`, `l_r_n` + 1 AS `column_2`, `_t_level_of_step` FROM (SELECT `l_r_id`, `l_r_n`, `_t_level_of_step`, `b_a_id`, `b_w` FROM (SELECT `r_id` AS `l_r_id`, `r_n` AS `l_r_n`, `_t_level` AS `_t_level_of_step` FROM level_r) AS step_1
  JOIN asof_5 ON (`b_a_id` = `l_r_id`) AND (`l_r_n` < 2)) AS step_2) AS step_3) AS step_4) AS step_5) SELECT `r_id`, `r_n`, `_t_level` FROM level_r
),
project_7 AS (
  SELECT `r_id` AS `c0`, `r_n` AS `c1`, `_t_level` FROM recursion_6
),
project_8 AS (
  SELECT `c0`, `c1`, `_t_level`, xxhash64(`c0`, `c1`, `_t_level`) AS `_t_hash` FROM project_7
)
SELECT `c0`, `c1`, `_t_level`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_8;

-- levels 0
CREATE OR REPLACE TEMPORARY VIEW `s__root_levels__state1 levels 0` AS
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
filter_2 AS (
  SELECT `a_id`, `a_v`, `_t_w` FROM changes_1 WHERE `a_v` = 1
),
project_3 AS (
  SELECT `a_id` AS `id`, 0 AS `column`, `_t_w` FROM filter_2
),
project_4 AS (
  SELECT `id` AS `r_id`, `column` AS `r_n`, `_t_w` FROM project_3
),
aggregate_5 AS (
  SELECT `r_id`, `r_n`, sum(`_t_w`) AS `_t_w` FROM project_4 GROUP BY 1, 2
),
filter_6 AS (
  SELECT `r_id`, `r_n`, `_t_w` FROM aggregate_5 WHERE NOT (`_t_w` = 0)
)
SELECT `r_id`, `r_n`, xxhash64(`r_id`, `r_n`) AS `_t_hash`, `_t_w` FROM filter_6;

-- levels 1
CREATE OR REPLACE TEMPORARY VIEW `s__root_levels__state1 levels 1` AS
WITH project_1 AS (
  SELECT `r_id` AS `l_r_id`, `r_n` AS `l_r_n`, `_t_w` FROM `s__root_levels__state1 levels 0`
),
asof_2 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_3 AS (
  SELECT `l_r_id`, `l_r_n`, `_t_w`, `b_a_id`, `b_w` FROM project_1
  JOIN asof_2 ON (`b_a_id` = `l_r_id`) AND (`l_r_n` < 2)
),
project_4 AS (
  SELECT `l_r_id`, `l_r_n`, `b_a_id`, `b_w`, `_t_w` FROM join_3
),
changes_5 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
stored_6 AS (
  SELECT `c0` AS `l_r_id`, `c1` AS `l_r_n`, `_t_level` AS `_t_level` FROM `stored rows of _trickle.s__root_levels__state1`
),
project_7 AS (
  SELECT `l_r_id`, `l_r_n` FROM stored_6 WHERE `_t_level` = 0
),
join_8 AS (
  SELECT `b_a_id`, `b_w`, `_t_w`, `l_r_id`, `l_r_n` FROM changes_5
  JOIN project_7 ON (`b_a_id` = `l_r_id`) AND (`l_r_n` < 2)
),
project_9 AS (
  SELECT `l_r_id`, `l_r_n`, `b_a_id`, `b_w`, `_t_w` FROM join_8
),
unionall_10 AS (
  SELECT `l_r_id`, `l_r_n`, `b_a_id`, `b_w`, `_t_w` FROM project_4
  UNION ALL SELECT `l_r_id`, `l_r_n`, `b_a_id`, `b_w`, `_t_w` FROM project_9
),
project_11 AS (
  SELECT `l_r_id`, `l_r_n`, `b_a_id`, `b_w`, `_t_w` FROM unionall_10
),
project_12 AS (
  SELECT `b_w` AS `w`, `l_r_n` + 1 AS `column_2`, `_t_w` FROM project_11
),
project_13 AS (
  SELECT `w` AS `r_id`, `column_2` AS `r_n`, `_t_w` FROM project_12
),
project_14 AS (
  SELECT CAST(`r_id` AS BIGINT) AS `r_id`, CAST(`r_n` AS INT) AS `r_n`, `_t_w` FROM project_13
),
aggregate_15 AS (
  SELECT `r_id`, `r_n`, sum(`_t_w`) AS `_t_w` FROM project_14 GROUP BY 1, 2
),
filter_16 AS (
  SELECT `r_id`, `r_n`, `_t_w` FROM aggregate_15 WHERE NOT (`_t_w` = 0)
)
SELECT `r_id`, `r_n`, xxhash64(`r_id`, `r_n`) AS `_t_hash`, `_t_w` FROM filter_16;

-- levels 2
CREATE OR REPLACE TEMPORARY VIEW `s__root_levels__state1 levels 2` AS
WITH project_1 AS (
  SELECT `r_id` AS `l_r_id`, `r_n` AS `l_r_n`, `_t_w` FROM `s__root_levels__state1 levels 1`
),
asof_2 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_3 AS (
  SELECT `l_r_id`, `l_r_n`, `_t_w`, `b_a_id`, `b_w` FROM project_1
  JOIN asof_2 ON (`b_a_id` = `l_r_id`) AND (`l_r_n` < 2)
),
project_4 AS (
  SELECT `l_r_id`, `l_r_n`, `b_a_id`, `b_w`, `_t_w` FROM join_3
),
changes_5 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
stored_6 AS (
  SELECT `c0` AS `l_r_id`, `c1` AS `l_r_n`, `_t_level` AS `_t_level` FROM `stored rows of _trickle.s__root_levels__state1`
),
project_7 AS (
  SELECT `l_r_id`, `l_r_n` FROM stored_6 WHERE `_t_level` = 1
),
join_8 AS (
  SELECT `b_a_id`, `b_w`, `_t_w`, `l_r_id`, `l_r_n` FROM changes_5
  JOIN project_7 ON (`b_a_id` = `l_r_id`) AND (`l_r_n` < 2)
),
project_9 AS (
  SELECT `l_r_id`, `l_r_n`, `b_a_id`, `b_w`, `_t_w` FROM join_8
),
unionall_10 AS (
  SELECT `l_r_id`, `l_r_n`, `b_a_id`, `b_w`, `_t_w` FROM project_4
  UNION ALL SELECT `l_r_id`, `l_r_n`, `b_a_id`, `b_w`, `_t_w` FROM project_9
),
project_11 AS (
  SELECT `l_r_id`, `l_r_n`, `b_a_id`, `b_w`, `_t_w` FROM unionall_10
),
project_12 AS (
  SELECT `b_w` AS `w`, `l_r_n` + 1 AS `column_2`, `_t_w` FROM project_11
),
project_13 AS (
  SELECT `w` AS `r_id`, `column_2` AS `r_n`, `_t_w` FROM project_12
),
project_14 AS (
  SELECT CAST(`r_id` AS BIGINT) AS `r_id`, CAST(`r_n` AS INT) AS `r_n`, `_t_w` FROM project_13
),
aggregate_15 AS (
  SELECT `r_id`, `r_n`, sum(`_t_w`) AS `_t_w` FROM project_14 GROUP BY 1, 2
),
filter_16 AS (
  SELECT `r_id`, `r_n`, `_t_w` FROM aggregate_15 WHERE NOT (`_t_w` = 0)
)
SELECT `r_id`, `r_n`, xxhash64(`r_id`, `r_n`) AS `_t_hash`, `_t_w` FROM filter_16;

-- levels, all of them; here the first 3
CREATE OR REPLACE TEMPORARY VIEW `s__root_levels__state1 levels` AS
SELECT `r_id` AS `c0`, `r_n` AS `c1`, CAST(0 AS INT) AS `_t_level`, `_t_w` FROM `s__root_levels__state1 levels 0`
  UNION ALL SELECT `r_id` AS `c0`, `r_n` AS `c1`, CAST(1 AS INT) AS `_t_level`, `_t_w` FROM `s__root_levels__state1 levels 1`
  UNION ALL SELECT `r_id` AS `c0`, `r_n` AS `c1`, CAST(2 AS INT) AS `_t_level`, `_t_w` FROM `s__root_levels__state1 levels 2`;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `s__root_levels__state1 delta` AS
WITH aggregate_1 AS (
  SELECT `c0`, `c1`, `_t_level`, sum(`_t_w`) AS `_t_w` FROM `s__root_levels__state1 levels` GROUP BY 1, 2, 3
),
filter_2 AS (
  SELECT `c0`, `c1`, `_t_level`, `_t_w` FROM aggregate_1 WHERE NOT (`_t_w` = 0)
)
SELECT `c0`, `c1`, `_t_level`, xxhash64(`c0`, `c1`, `_t_level`) AS `_t_hash`, `_t_w` FROM filter_2;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `s__root_levels__state1 leaving` AS
WITH filter_1 AS (
  SELECT `c0`, `c1`, `_t_level`, `_t_hash`, `_t_w` FROM `s__root_levels__state1 delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `c0` AS `_t_o_c0`, `c1` AS `_t_o_c1`, `_t_level` AS `_t_o__t_level`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of _trickle.s__root_levels__state1`
),
join_3 AS (
  SELECT `c0`, `c1`, `_t_level`, `_t_hash`, `_t_w`, `_t_o_c0`, `_t_o_c1`, `_t_o__t_level`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_c0` <=> `c0`) AND (`_t_o_c1` <=> `c1`) AND (`_t_o__t_level` <=> `_t_level`)
),
window_4 AS (
  SELECT `c0`, `c1`, `_t_level`, `_t_hash`, `_t_w`, `_t_o_c0`, `_t_o_c1`, `_t_o__t_level`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `c0`, `c1`, `_t_level` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `c0`, `c1`, `_t_level`, `_t_hash`, `_t_w`, `_t_o_c0`, `_t_o_c1`, `_t_o__t_level`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of _trickle.s__root_levels__state1` AS
WITH filter_1 AS (
  SELECT `c0`, `c1`, `_t_level`, `_t_hash`, `_t_w` FROM `s__root_levels__state1 delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `c0`, `c1`, `_t_level`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `c0`, `c1`, `_t_level`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `c0`, `c1`, `_t_level`, `_t_hash`, `_t_w` FROM `s__root_levels__state1 delta` WHERE `_t_w` < 0
)
SELECT `c0`, `c1`, `_t_level`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `c0`, `c1`, `_t_level`, `_t_hash`, `_t_w` FROM filter_4;

-- its new rows
CREATE OR REPLACE TEMPORARY VIEW `new rows of _trickle.s__root_levels__state1` AS
WITH stored_1 AS (
  SELECT `c0` AS `c0`, `c1` AS `c1` FROM `stored rows of _trickle.s__root_levels__state1`
),
changes_2 AS (
  SELECT `c0` AS `c0`, `c1` AS `c1`, `_t_w` FROM `changes of _trickle.s__root_levels__state1`
),
unionall_3 AS (
  SELECT `c0`, `c1`, 1L AS `_t_w` FROM stored_1
  UNION ALL SELECT `c0`, `c1`, `_t_w` FROM changes_2
),
aggregate_4 AS (
  SELECT `c0`, `c1`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2
),
filter_5 AS (
  SELECT `c0`, `c1`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0)
),
project_6 AS (
  SELECT `c0`, `c1`, `_t_w` FROM filter_5
),
filter_7 AS (
  SELECT `c0`, `c1`, `_t_w` FROM project_6 WHERE `_t_w` > 0
),
explode_8 AS (
  SELECT `c0`, `c1`, `_t_copy`, `_t_w` FROM filter_7 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
)
SELECT `c0`, `c1` FROM explode_8;

-- stored rows of s.root_levels
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.root_levels` AS
WITH asof_1 AS (
  SELECT `c0` AS `r_id`, `c1` AS `r_n` FROM `_trickle`.`s__root_levels__state1` VERSION AS OF 1
),
project_2 AS (
  SELECT `r_id` AS `id_2`, `r_n` AS `n` FROM asof_1
),
project_3 AS (
  SELECT `id_2` AS `id`, `n` FROM project_2
),
project_4 AS (
  SELECT `id`, `n`, xxhash64(`id`, `n`) AS `_t_hash` FROM project_3
)
SELECT `id`, `n`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_4;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH changes_1 AS (
  SELECT `c0` AS `r_id`, `c1` AS `r_n`, `_t_w` FROM `changes of _trickle.s__root_levels__state1`
),
project_2 AS (
  SELECT `r_id` AS `id_2`, `r_n` AS `n`, `_t_w` FROM changes_1
),
project_3 AS (
  SELECT `id_2` AS `id`, `n`, `_t_w` FROM project_2
),
aggregate_4 AS (
  SELECT `id`, `n`, sum(`_t_w`) AS `_t_w` FROM project_3 GROUP BY 1, 2
),
filter_5 AS (
  SELECT `id`, `n`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0)
)
SELECT `id`, `n`, xxhash64(`id`, `n`) AS `_t_hash`, `_t_w` FROM filter_5;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `n` AS `_t_o_n`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.root_levels`
),
join_3 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_n`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (`_t_o_n` <=> `n`)
),
window_4 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_n`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, `n` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_n`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.root_levels` AS
WITH filter_1 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `id`, `n`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
)
SELECT `id`, `n`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `id`, `n`, `_t_hash`, `_t_w` FROM filter_4
