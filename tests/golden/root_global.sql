-- An aggregate without keys: one row, always stored
-- query
SELECT count(*) AS n, min(v) AS least FROM a
-- delta
-- changes of s.a
CREATE OR REPLACE TEMPORARY VIEW `changes of s.a` AS
WITH asof_1 AS (
  SELECT `v` AS `v` FROM `s`.`a`
),
asof_2 AS (
  SELECT `v` AS `v` FROM `s`.`a` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `v`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `v`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `v`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1
)
SELECT `v`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

-- stored rows of s.root_global
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.root_global` AS
WITH asof_1 AS (
  SELECT `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
aggregate_2 AS (
  SELECT count(*) AS `a_count`, min(`a_v`) AS `a_min`, count(1) AS `_t_count`, count(CASE WHEN isnotnull(1) THEN 1 END) AS `_t_0_n`, min(`a_v`) AS `_t_1_x` FROM asof_1
),
project_3 AS (
  SELECT `a_count` AS `n`, `a_min` AS `least`, `_t_count`, `_t_0_n`, `_t_1_x` FROM aggregate_2
)
SELECT `n`, `least`, `_t_count`, `_t_0_n`, `_t_1_x`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_3;

-- change
CREATE OR REPLACE TEMPORARY VIEW `change` AS
WITH changes_1 AS (
  SELECT `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
aggregate_2 AS (
  SELECT `a_v` AS `_t_1_x_value`, coalesce(sum(`_t_w`), 0) AS `_t_count`, coalesce(sum(CASE WHEN isnotnull(1) THEN 1 END * `_t_w`), 0) AS `_t_0_n`, sum(`_t_w`) AS `_t_w` FROM changes_1 GROUP BY 1
)
SELECT CAST(coalesce(sum(`_t_count`), 0) AS BIGINT) AS `_t_count`, CAST(coalesce(sum(`_t_0_n`), 0) AS BIGINT) AS `_t_0_n`, min(CASE WHEN `_t_w` > 0 THEN `_t_1_x_value` END) AS `_t_1_x`, min(CASE WHEN `_t_w` < 0 THEN `_t_1_x_value` END) AS `_t_1_x_removed` FROM aggregate_2;

-- added
CREATE OR REPLACE TEMPORARY VIEW `added` AS
WITH named_1 AS (
  SELECT `_t_count`, `_t_0_n`, `_t_1_x`, `_t_1_x_removed` FROM `change`
),
stored_2 AS (
  SELECT `n` AS `_t_o_n`, `least` AS `_t_o_least`, `_t_count` AS `_t_o__t_count`, `_t_0_n` AS `_t_o__t_0_n`, `_t_1_x` AS `_t_o__t_1_x`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.root_global`
),
outerjoin_3 AS (
  SELECT `_t_count`, `_t_0_n`, `_t_1_x`, `_t_1_x_removed`, `_t_o_n`, `_t_o_least`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_x`, `_t_file`, `_t_pos` FROM named_1 LEFT OUTER JOIN stored_2 ON true
),
project_4 AS (
  SELECT CAST(coalesce(`_t_o__t_count`, 0) + `_t_count` AS BIGINT) AS `_t_count`, CAST(coalesce(`_t_o__t_0_n`, 0) + `_t_0_n` AS BIGINT) AS `_t_0_n`, least(`_t_o__t_1_x`, `_t_1_x`) AS `_t_1_x`, (NOT (`_t_1_x_removed` IS NULL)) AND ((least(`_t_o__t_1_x`, `_t_1_x`) IS NULL) OR (NOT (least(`_t_o__t_1_x`, `_t_1_x`) < `_t_1_x_removed`))) AS `_t_again`, `_t_file`, `_t_pos`, `_t_o_n`, `_t_o_least`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_x` FROM outerjoin_3
),
project_5 AS (
  SELECT `_t_file`, `_t_pos`, `_t_again`, TRUE AS `_t_lives`, `_t_file` IS NULL AS `_t_lost`, `_t_0_n` AS `_t_n_n`, `_t_1_x` AS `_t_n_least`, `_t_count` AS `_t_n__t_count`, `_t_0_n` AS `_t_n__t_0_n`, `_t_1_x` AS `_t_n__t_1_x`, `_t_o_n`, `_t_o_least`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_x` FROM project_4
),
project_6 AS (
  SELECT `_t_file`, `_t_pos`, `_t_again`, `_t_lives`, `_t_lost`, `_t_n_n`, `_t_n_least`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_x`, `_t_o_n`, `_t_o_least`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_x`, (`_t_n_n` <=> `_t_o_n`) AND (`_t_n_least` <=> `_t_o_least`) AND (`_t_n__t_count` <=> `_t_o__t_count`) AND (`_t_n__t_0_n` <=> `_t_o__t_0_n`) AND (`_t_n__t_1_x` <=> `_t_o__t_1_x`) AS `_t_same` FROM project_5
)
SELECT `_t_file`, `_t_pos`, `_t_again`, `_t_lost`, `_t_n_n`, `_t_n_least`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_x`, `_t_o_n`, `_t_o_least`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_x`, (NOT (`_t_file` IS NULL)) AND (NOT (`_t_lives` AND `_t_same`)) AS `_t_leaves`, `_t_lives` AND (NOT ((NOT (`_t_file` IS NULL)) AND `_t_same`)) AS `_t_enters`, (NOT (`_t_file` IS NULL)) AND `_t_lives` AND (NOT `_t_same`) AS `_t_updated` FROM project_6;

-- to rescan, if groups must be read again
CREATE OR REPLACE TEMPORARY VIEW `to rescan` AS
SELECT 1 AS `_` FROM `added` WHERE `_t_again`;

-- merged, if groups must be read again; else added
CREATE OR REPLACE TEMPORARY VIEW `merged` AS
WITH named_1 AS (
  SELECT 1 AS `_` FROM `to rescan`
),
asof_2 AS (
  SELECT `v` AS `a_v` FROM `s`.`a`
),
aggregate_3 AS (
  SELECT count(*) AS `a_count`, min(`a_v`) AS `a_min`, count(1) AS `_t_count`, count(CASE WHEN isnotnull(1) THEN 1 END) AS `_t_0_n`, min(`a_v`) AS `_t_1_x` FROM asof_2
),
project_4 AS (
  SELECT `a_count` AS `n`, `a_min` AS `least`, `_t_count`, `_t_0_n`, `_t_1_x` FROM aggregate_3
),
project_5 AS (
  SELECT `n` AS `_t_n_n`, `least` AS `_t_n_least`, `_t_count` AS `_t_n__t_count`, `_t_0_n` AS `_t_n__t_0_n`, `_t_1_x` AS `_t_n__t_1_x`, TRUE AS `_t_fresh` FROM project_4
),
outerjoin_6 AS (
  SELECT `_t_n_n`, `_t_n_least`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_x`, `_t_fresh` FROM named_1 LEFT OUTER JOIN project_5 ON true
),
stored_7 AS (
  SELECT `n` AS `_t_o_n`, `least` AS `_t_o_least`, `_t_count` AS `_t_o__t_count`, `_t_0_n` AS `_t_o__t_0_n`, `_t_1_x` AS `_t_o__t_1_x`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.root_global`
),
outerjoin_8 AS (
  SELECT `_t_n_n`, `_t_n_least`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_x`, `_t_fresh`, `_t_o_n`, `_t_o_least`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_x`, `_t_file`, `_t_pos` FROM outerjoin_6 LEFT OUTER JOIN stored_7 ON true
),
project_9 AS (
  SELECT `_t_file`, `_t_pos`, coalesce(`_t_fresh`, FALSE) AS `_t_lives`, FALSE AS `_t_lost`, `_t_n_n`, `_t_n_least`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_x`, `_t_o_n`, `_t_o_least`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_x` FROM outerjoin_8
),
project_10 AS (
  SELECT `_t_file`, `_t_pos`, `_t_lives`, `_t_lost`, `_t_n_n`, `_t_n_least`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_x`, `_t_o_n`, `_t_o_least`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_x`, (`_t_n_n` <=> `_t_o_n`) AND (`_t_n_least` <=> `_t_o_least`) AND (`_t_n__t_count` <=> `_t_o__t_count`) AND (`_t_n__t_0_n` <=> `_t_o__t_0_n`) AND (`_t_n__t_1_x` <=> `_t_o__t_1_x`) AS `_t_same` FROM project_9
),
project_11 AS (
  SELECT `_t_file`, `_t_pos`, `_t_lost`, `_t_n_n`, `_t_n_least`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_x`, `_t_o_n`, `_t_o_least`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_x`, (NOT (`_t_file` IS NULL)) AND (NOT (`_t_lives` AND `_t_same`)) AS `_t_leaves`, `_t_lives` AND (NOT ((NOT (`_t_file` IS NULL)) AND `_t_same`)) AS `_t_enters`, (NOT (`_t_file` IS NULL)) AND `_t_lives` AND (NOT `_t_same`) AS `_t_updated` FROM project_10
),
project_12 AS (
  SELECT `_t_file`, `_t_pos`, `_t_lost`, `_t_leaves`, `_t_enters`, `_t_updated`, `_t_n_n`, `_t_n_least`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_x`, `_t_o_n`, `_t_o_least`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_x` FROM project_11
)
SELECT `_t_file`, `_t_pos`, `_t_lost`, `_t_leaves`, `_t_enters`, `_t_updated`, `_t_n_n`, `_t_n_least`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_x`, `_t_o_n`, `_t_o_least`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_x` FROM `added` WHERE NOT `_t_again`
  UNION ALL SELECT `_t_file`, `_t_pos`, `_t_lost`, `_t_leaves`, `_t_enters`, `_t_updated`, `_t_n_n`, `_t_n_least`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_x`, `_t_o_n`, `_t_o_least`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_x` FROM project_12;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.root_global` AS
WITH project_1 AS (
  SELECT `_t_n_n` AS `n`, `_t_n_least` AS `least`, `_t_n__t_count` AS `_t_count`, `_t_n__t_0_n` AS `_t_0_n`, `_t_n__t_1_x` AS `_t_1_x` FROM `merged` WHERE `_t_enters`
),
project_2 AS (
  SELECT `_t_o_n` AS `n`, `_t_o_least` AS `least`, `_t_o__t_count` AS `_t_count`, `_t_o__t_0_n` AS `_t_0_n`, `_t_o__t_1_x` AS `_t_1_x` FROM `merged` WHERE `_t_leaves`
)
SELECT `n`, `least`, `_t_count`, `_t_0_n`, `_t_1_x`, 1L AS `_t_w` FROM project_1
  UNION ALL SELECT `n`, `least`, `_t_count`, `_t_0_n`, `_t_1_x`, -1L AS `_t_w` FROM project_2
