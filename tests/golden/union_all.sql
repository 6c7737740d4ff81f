-- Branches of different types: each is cast to the common type
-- query
SELECT id, v AS n FROM a UNION ALL SELECT a_id, w FROM b
-- delta
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

-- stored rows of s.union_all
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.union_all` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_v` AS `n` FROM asof_1
),
project_3 AS (
  SELECT `id` AS `u_id`, `n` AS `u_n` FROM project_2
),
asof_4 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
project_5 AS (
  SELECT `b_a_id` AS `a_id_2`, `b_w` AS `w` FROM asof_4
),
project_6 AS (
  SELECT `a_id_2` AS `u_id`, `w` AS `u_n` FROM project_5
),
unionall_7 AS (
  SELECT `u_id`, CAST(`u_n` AS BIGINT) AS `u_n` FROM project_3
  UNION ALL SELECT CAST(`u_id` AS BIGINT) AS `u_id`, `u_n` FROM project_6
),
project_8 AS (
  SELECT `u_id` AS `id`, `u_n` AS `n` FROM unionall_7
),
project_9 AS (
  SELECT `id`, `n`, xxhash64(`id`, `n`) AS `_t_hash` FROM project_8
)
SELECT `id`, `n`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_9;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_v` AS `n`, `_t_w` FROM changes_1
),
project_3 AS (
  SELECT `id` AS `u_id`, `n` AS `u_n`, `_t_w` FROM project_2
),
changes_4 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
project_5 AS (
  SELECT `b_a_id` AS `a_id_2`, `b_w` AS `w`, `_t_w` FROM changes_4
),
project_6 AS (
  SELECT `a_id_2` AS `u_id`, `w` AS `u_n`, `_t_w` FROM project_5
),
unionall_7 AS (
  SELECT `u_id`, CAST(`u_n` AS BIGINT) AS `u_n`, `_t_w` FROM project_3
  UNION ALL SELECT CAST(`u_id` AS BIGINT) AS `u_id`, `u_n`, `_t_w` FROM project_6
),
project_8 AS (
  SELECT `u_id` AS `id`, `u_n` AS `n`, `_t_w` FROM unionall_7
),
aggregate_9 AS (
  SELECT `id`, `n`, sum(`_t_w`) AS `_t_w` FROM project_8 GROUP BY 1, 2
),
filter_10 AS (
  SELECT `id`, `n`, `_t_w` FROM aggregate_9 WHERE NOT (`_t_w` = 0)
)
SELECT `id`, `n`, xxhash64(`id`, `n`) AS `_t_hash`, `_t_w` FROM filter_10;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `n` AS `_t_o_n`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.union_all`
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
CREATE OR REPLACE TEMPORARY VIEW `changes of s.union_all` AS
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
