-- At the root, states that the delta is added to: no input is read
-- query
SELECT k, count(*) AS n, sum(v) AS total, max(v) AS top, bool_or(v > 3) AS any_big FROM a GROUP BY k
-- delta
-- changes of s.a
CREATE OR REPLACE TEMPORARY VIEW `changes of s.a` AS
WITH asof_1 AS (
  SELECT `k` AS `k`, `v` AS `v` FROM `s`.`a`
),
asof_2 AS (
  SELECT `k` AS `k`, `v` AS `v` FROM `s`.`a` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `k`, `v`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `k`, `v`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `k`, `v`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2
)
SELECT `k`, `v`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

-- stored rows of s.root_algebraic
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.root_algebraic` AS
WITH asof_1 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
aggregate_2 AS (
  SELECT `a_k` AS `k_k`, count(*) AS `a_count`, sum(`a_v`) AS `a_sum`, max(`a_v`) AS `a_max`, bool_or(`a_v` > 3) AS `a_bool_or`, count(1) AS `_t_count`, count(CASE WHEN isnotnull(1) THEN 1 END) AS `_t_0_n`, count(CASE WHEN isnotnull(`a_v`) THEN 1 END) AS `_t_1_n`, CAST(coalesce(sum(CAST(`a_v` AS BIGINT)), 0) AS BIGINT) AS `_t_1_s`, max(`a_v`) AS `_t_2_x`, count(CASE WHEN `a_v` > 3 THEN 1 END) AS `_t_3_t`, count(CASE WHEN not(`a_v` > 3) THEN 1 END) AS `_t_3_f` FROM asof_1 GROUP BY 1
),
project_3 AS (
  SELECT `k_k` AS `k`, `a_count` AS `n`, `a_sum` AS `total`, `a_max` AS `top`, `a_bool_or` AS `any_big`, `_t_count`, `_t_0_n`, `_t_1_n`, `_t_1_s`, `_t_2_x`, `_t_3_t`, `_t_3_f` FROM aggregate_2
)
SELECT `k`, `n`, `total`, `top`, `any_big`, `_t_count`, `_t_0_n`, `_t_1_n`, `_t_1_s`, `_t_2_x`, `_t_3_t`, `_t_3_f`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_3;

-- change
CREATE OR REPLACE TEMPORARY VIEW `change` AS
WITH changes_1 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
aggregate_2 AS (
  SELECT `a_k` AS `k_k`, `a_v` AS `_t_2_x_value`, coalesce(sum(`_t_w`), 0) AS `_t_count`, coalesce(sum(CASE WHEN isnotnull(1) THEN 1 END * `_t_w`), 0) AS `_t_0_n`, coalesce(sum(CASE WHEN isnotnull(`a_v`) THEN 1 END * `_t_w`), 0) AS `_t_1_n`, CAST(coalesce(sum(CAST(`a_v` AS BIGINT) * `_t_w`), 0) AS BIGINT) AS `_t_1_s`, coalesce(sum(CASE WHEN `a_v` > 3 THEN 1 END * `_t_w`), 0) AS `_t_3_t`, coalesce(sum(CASE WHEN not(`a_v` > 3) THEN 1 END * `_t_w`), 0) AS `_t_3_f`, sum(`_t_w`) AS `_t_w` FROM changes_1 GROUP BY 1, 2
)
SELECT `k_k`, CAST(coalesce(sum(`_t_count`), 0) AS BIGINT) AS `_t_count`, CAST(coalesce(sum(`_t_0_n`), 0) AS BIGINT) AS `_t_0_n`, CAST(coalesce(sum(`_t_1_n`), 0) AS BIGINT) AS `_t_1_n`, CAST(coalesce(sum(`_t_1_s`), 0) AS BIGINT) AS `_t_1_s`, CAST(coalesce(sum(`_t_3_t`), 0) AS BIGINT) AS `_t_3_t`, CAST(coalesce(sum(`_t_3_f`), 0) AS BIGINT) AS `_t_3_f`, max(CASE WHEN `_t_w` > 0 THEN `_t_2_x_value` END) AS `_t_2_x`, max(CASE WHEN `_t_w` < 0 THEN `_t_2_x_value` END) AS `_t_2_x_removed` FROM aggregate_2 GROUP BY 1;

-- added
CREATE OR REPLACE TEMPORARY VIEW `added` AS
WITH named_1 AS (
  SELECT `k_k`, `_t_count`, `_t_0_n`, `_t_1_n`, `_t_1_s`, `_t_3_t`, `_t_3_f`, `_t_2_x`, `_t_2_x_removed` FROM `change`
),
stored_2 AS (
  SELECT `k` AS `_t_o_k`, `n` AS `_t_o_n`, `total` AS `_t_o_total`, `top` AS `_t_o_top`, `any_big` AS `_t_o_any_big`, `_t_count` AS `_t_o__t_count`, `_t_0_n` AS `_t_o__t_0_n`, `_t_1_n` AS `_t_o__t_1_n`, `_t_1_s` AS `_t_o__t_1_s`, `_t_2_x` AS `_t_o__t_2_x`, `_t_3_t` AS `_t_o__t_3_t`, `_t_3_f` AS `_t_o__t_3_f`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.root_algebraic`
),
project_3 AS (
  SELECT `k_k` FROM `change`
),
restrict_4 AS (
  SELECT `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f`, `_t_file`, `_t_pos` FROM stored_2 LEFT SEMI JOIN project_3 ON (`_t_o_k`) <=> project_3.`k_k`
),
outerjoin_5 AS (
  SELECT `k_k`, `_t_count`, `_t_0_n`, `_t_1_n`, `_t_1_s`, `_t_3_t`, `_t_3_f`, `_t_2_x`, `_t_2_x_removed`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f`, `_t_file`, `_t_pos` FROM named_1 LEFT OUTER JOIN restrict_4 ON (`k_k` <=> `_t_o_k`)
),
project_6 AS (
  SELECT `k_k`, CAST(coalesce(`_t_o__t_count`, 0) + `_t_count` AS BIGINT) AS `_t_count`, CAST(coalesce(`_t_o__t_0_n`, 0) + `_t_0_n` AS BIGINT) AS `_t_0_n`, CAST(coalesce(`_t_o__t_1_n`, 0) + `_t_1_n` AS BIGINT) AS `_t_1_n`, CAST(coalesce(`_t_o__t_1_s`, 0) + `_t_1_s` AS BIGINT) AS `_t_1_s`, greatest(`_t_o__t_2_x`, `_t_2_x`) AS `_t_2_x`, CAST(coalesce(`_t_o__t_3_t`, 0) + `_t_3_t` AS BIGINT) AS `_t_3_t`, CAST(coalesce(`_t_o__t_3_f`, 0) + `_t_3_f` AS BIGINT) AS `_t_3_f`, (NOT (`_t_2_x_removed` IS NULL)) AND ((greatest(`_t_o__t_2_x`, `_t_2_x`) IS NULL) OR (NOT (greatest(`_t_o__t_2_x`, `_t_2_x`) > `_t_2_x_removed`))) AS `_t_again`, `_t_file`, `_t_pos`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f` FROM outerjoin_5
),
project_7 AS (
  SELECT `k_k` AS `k_k__key`, `_t_file`, `_t_pos`, `_t_again`, `_t_count` > 0 AS `_t_lives`, (`_t_count` < 0) OR ((`_t_file` IS NULL) AND (`_t_count` = 0) AND ((((((NOT (`_t_count` = 0)) OR (NOT (`_t_0_n` = 0))) OR (NOT (`_t_1_n` = 0))) OR (NOT (`_t_1_s` = 0))) OR (NOT (`_t_3_t` = 0))) OR (NOT (`_t_3_f` = 0)))) AS `_t_lost`, `k_k` AS `_t_n_k`, `_t_0_n` AS `_t_n_n`, CASE WHEN `_t_1_n` > 0 THEN CAST(`_t_1_s` AS BIGINT) END AS `_t_n_total`, `_t_2_x` AS `_t_n_top`, CASE WHEN `_t_3_t` > 0 THEN CAST(1 AS BOOLEAN) ELSE CASE WHEN `_t_3_f` > 0 THEN CAST(0 AS BOOLEAN) END END AS `_t_n_any_big`, `_t_count` AS `_t_n__t_count`, `_t_0_n` AS `_t_n__t_0_n`, `_t_1_n` AS `_t_n__t_1_n`, `_t_1_s` AS `_t_n__t_1_s`, `_t_2_x` AS `_t_n__t_2_x`, `_t_3_t` AS `_t_n__t_3_t`, `_t_3_f` AS `_t_n__t_3_f`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f` FROM project_6
),
project_8 AS (
  SELECT `k_k__key`, `_t_file`, `_t_pos`, `_t_again`, `_t_lives`, `_t_lost`, `_t_n_k`, `_t_n_n`, `_t_n_total`, `_t_n_top`, `_t_n_any_big`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_n`, `_t_n__t_1_s`, `_t_n__t_2_x`, `_t_n__t_3_t`, `_t_n__t_3_f`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f`, (`_t_n_k` <=> `_t_o_k`) AND (`_t_n_n` <=> `_t_o_n`) AND (`_t_n_total` <=> `_t_o_total`) AND (`_t_n_top` <=> `_t_o_top`) AND (`_t_n_any_big` <=> `_t_o_any_big`) AND (`_t_n__t_count` <=> `_t_o__t_count`) AND (`_t_n__t_0_n` <=> `_t_o__t_0_n`) AND (`_t_n__t_1_n` <=> `_t_o__t_1_n`) AND (`_t_n__t_1_s` <=> `_t_o__t_1_s`) AND (`_t_n__t_2_x` <=> `_t_o__t_2_x`) AND (`_t_n__t_3_t` <=> `_t_o__t_3_t`) AND (`_t_n__t_3_f` <=> `_t_o__t_3_f`) AS `_t_same` FROM project_7
)
SELECT `k_k__key`, `_t_file`, `_t_pos`, `_t_again`, `_t_lost`, `_t_n_k`, `_t_n_n`, `_t_n_total`, `_t_n_top`, `_t_n_any_big`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_n`, `_t_n__t_1_s`, `_t_n__t_2_x`, `_t_n__t_3_t`, `_t_n__t_3_f`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f`, (NOT (`_t_file` IS NULL)) AND (NOT (`_t_lives` AND `_t_same`)) AS `_t_leaves`, `_t_lives` AND (NOT ((NOT (`_t_file` IS NULL)) AND `_t_same`)) AS `_t_enters`, (NOT (`_t_file` IS NULL)) AND `_t_lives` AND (NOT `_t_same`) AS `_t_updated` FROM project_8;

-- to rescan, if groups must be read again
CREATE OR REPLACE TEMPORARY VIEW `to rescan` AS
SELECT `k_k__key` FROM `added` WHERE `_t_again`;

-- merged, if groups must be read again; else added
CREATE OR REPLACE TEMPORARY VIEW `merged` AS
WITH named_1 AS (
  SELECT `k_k__key` FROM `to rescan`
),
asof_2 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
restrict_3 AS (
  SELECT `a_k`, `a_v` FROM asof_2 LEFT SEMI JOIN named_1 ON (`a_k`) <=> named_1.`k_k__key`
),
aggregate_4 AS (
  SELECT `a_k` AS `k_k`, count(*) AS `a_count`, sum(`a_v`) AS `a_sum`, max(`a_v`) AS `a_max`, bool_or(`a_v` > 3) AS `a_bool_or`, count(1) AS `_t_count`, count(CASE WHEN isnotnull(1) THEN 1 END) AS `_t_0_n`, count(CASE WHEN isnotnull(`a_v`) THEN 1 END) AS `_t_1_n`, CAST(coalesce(sum(CAST(`a_v` AS BIGINT)), 0) AS BIGINT) AS `_t_1_s`, max(`a_v`) AS `_t_2_x`, count(CASE WHEN `a_v` > 3 THEN 1 END) AS `_t_3_t`, count(CASE WHEN not(`a_v` > 3) THEN 1 END) AS `_t_3_f` FROM restrict_3 GROUP BY 1
),
project_5 AS (
  SELECT `k_k` AS `k`, `a_count` AS `n`, `a_sum` AS `total`, `a_max` AS `top`, `a_bool_or` AS `any_big`, `_t_count`, `_t_0_n`, `_t_1_n`, `_t_1_s`, `_t_2_x`, `_t_3_t`, `_t_3_f` FROM aggregate_4
),
project_6 AS (
  SELECT `k` AS `_t_n_k`, `n` AS `_t_n_n`, `total` AS `_t_n_total`, `top` AS `_t_n_top`, `any_big` AS `_t_n_any_big`, `_t_count` AS `_t_n__t_count`, `_t_0_n` AS `_t_n__t_0_n`, `_t_1_n` AS `_t_n__t_1_n`, `_t_1_s` AS `_t_n__t_1_s`, `_t_2_x` AS `_t_n__t_2_x`, `_t_3_t` AS `_t_n__t_3_t`, `_t_3_f` AS `_t_n__t_3_f`, TRUE AS `_t_fresh` FROM project_5
),
outerjoin_7 AS (
  SELECT `k_k__key`, `_t_n_k`, `_t_n_n`, `_t_n_total`, `_t_n_top`, `_t_n_any_big`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_n`, `_t_n__t_1_s`, `_t_n__t_2_x`, `_t_n__t_3_t`, `_t_n__t_3_f`, `_t_fresh` FROM named_1 LEFT OUTER JOIN project_6 ON (`k_k__key` <=> `_t_n_k`)
),
stored_8 AS (
  SELECT `k` AS `_t_o_k`, `n` AS `_t_o_n`, `total` AS `_t_o_total`, `top` AS `_t_o_top`, `any_big` AS `_t_o_any_big`, `_t_count` AS `_t_o__t_count`, `_t_0_n` AS `_t_o__t_0_n`, `_t_1_n` AS `_t_o__t_1_n`, `_t_1_s` AS `_t_o__t_1_s`, `_t_2_x` AS `_t_o__t_2_x`, `_t_3_t` AS `_t_o__t_3_t`, `_t_3_f` AS `_t_o__t_3_f`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.root_algebraic`
),
restrict_9 AS (
  SELECT `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f`, `_t_file`, `_t_pos` FROM stored_8 LEFT SEMI JOIN named_1 ON (`_t_o_k`) <=> named_1.`k_k__key`
),
outerjoin_10 AS (
  SELECT `k_k__key`, `_t_n_k`, `_t_n_n`, `_t_n_total`, `_t_n_top`, `_t_n_any_big`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_n`, `_t_n__t_1_s`, `_t_n__t_2_x`, `_t_n__t_3_t`, `_t_n__t_3_f`, `_t_fresh`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f`, `_t_file`, `_t_pos` FROM outerjoin_7 LEFT OUTER JOIN restrict_9 ON (`k_k__key` <=> `_t_o_k`)
),
project_11 AS (
  SELECT `_t_file`, `_t_pos`, coalesce(`_t_fresh`, FALSE) AS `_t_lives`, FALSE AS `_t_lost`, `_t_n_k`, `_t_n_n`, `_t_n_total`, `_t_n_top`, `_t_n_any_big`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_n`, `_t_n__t_1_s`, `_t_n__t_2_x`, `_t_n__t_3_t`, `_t_n__t_3_f`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f` FROM outerjoin_10
),
project_12 AS (
  SELECT `_t_file`, `_t_pos`, `_t_lives`, `_t_lost`, `_t_n_k`, `_t_n_n`, `_t_n_total`, `_t_n_top`, `_t_n_any_big`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_n`, `_t_n__t_1_s`, `_t_n__t_2_x`, `_t_n__t_3_t`, `_t_n__t_3_f`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f`, (`_t_n_k` <=> `_t_o_k`) AND (`_t_n_n` <=> `_t_o_n`) AND (`_t_n_total` <=> `_t_o_total`) AND (`_t_n_top` <=> `_t_o_top`) AND (`_t_n_any_big` <=> `_t_o_any_big`) AND (`_t_n__t_count` <=> `_t_o__t_count`) AND (`_t_n__t_0_n` <=> `_t_o__t_0_n`) AND (`_t_n__t_1_n` <=> `_t_o__t_1_n`) AND (`_t_n__t_1_s` <=> `_t_o__t_1_s`) AND (`_t_n__t_2_x` <=> `_t_o__t_2_x`) AND (`_t_n__t_3_t` <=> `_t_o__t_3_t`) AND (`_t_n__t_3_f` <=> `_t_o__t_3_f`) AS `_t_same` FROM project_11
),
project_13 AS (
  SELECT `_t_file`, `_t_pos`, `_t_lost`, `_t_n_k`, `_t_n_n`, `_t_n_total`, `_t_n_top`, `_t_n_any_big`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_n`, `_t_n__t_1_s`, `_t_n__t_2_x`, `_t_n__t_3_t`, `_t_n__t_3_f`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f`, (NOT (`_t_file` IS NULL)) AND (NOT (`_t_lives` AND `_t_same`)) AS `_t_leaves`, `_t_lives` AND (NOT ((NOT (`_t_file` IS NULL)) AND `_t_same`)) AS `_t_enters`, (NOT (`_t_file` IS NULL)) AND `_t_lives` AND (NOT `_t_same`) AS `_t_updated` FROM project_12
),
project_14 AS (
  SELECT `_t_file`, `_t_pos`, `_t_lost`, `_t_leaves`, `_t_enters`, `_t_updated`, `_t_n_k`, `_t_n_n`, `_t_n_total`, `_t_n_top`, `_t_n_any_big`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_n`, `_t_n__t_1_s`, `_t_n__t_2_x`, `_t_n__t_3_t`, `_t_n__t_3_f`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f` FROM project_13
)
SELECT `_t_file`, `_t_pos`, `_t_lost`, `_t_leaves`, `_t_enters`, `_t_updated`, `_t_n_k`, `_t_n_n`, `_t_n_total`, `_t_n_top`, `_t_n_any_big`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_n`, `_t_n__t_1_s`, `_t_n__t_2_x`, `_t_n__t_3_t`, `_t_n__t_3_f`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f` FROM `added` WHERE NOT `_t_again`
  UNION ALL SELECT `_t_file`, `_t_pos`, `_t_lost`, `_t_leaves`, `_t_enters`, `_t_updated`, `_t_n_k`, `_t_n_n`, `_t_n_total`, `_t_n_top`, `_t_n_any_big`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_n`, `_t_n__t_1_s`, `_t_n__t_2_x`, `_t_n__t_3_t`, `_t_n__t_3_f`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o_top`, `_t_o_any_big`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_o__t_2_x`, `_t_o__t_3_t`, `_t_o__t_3_f` FROM project_14;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.root_algebraic` AS
WITH project_1 AS (
  SELECT `_t_n_k` AS `k`, `_t_n_n` AS `n`, `_t_n_total` AS `total`, `_t_n_top` AS `top`, `_t_n_any_big` AS `any_big`, `_t_n__t_count` AS `_t_count`, `_t_n__t_0_n` AS `_t_0_n`, `_t_n__t_1_n` AS `_t_1_n`, `_t_n__t_1_s` AS `_t_1_s`, `_t_n__t_2_x` AS `_t_2_x`, `_t_n__t_3_t` AS `_t_3_t`, `_t_n__t_3_f` AS `_t_3_f` FROM `merged` WHERE `_t_enters`
),
project_2 AS (
  SELECT `_t_o_k` AS `k`, `_t_o_n` AS `n`, `_t_o_total` AS `total`, `_t_o_top` AS `top`, `_t_o_any_big` AS `any_big`, `_t_o__t_count` AS `_t_count`, `_t_o__t_0_n` AS `_t_0_n`, `_t_o__t_1_n` AS `_t_1_n`, `_t_o__t_1_s` AS `_t_1_s`, `_t_o__t_2_x` AS `_t_2_x`, `_t_o__t_3_t` AS `_t_3_t`, `_t_o__t_3_f` AS `_t_3_f` FROM `merged` WHERE `_t_leaves`
)
SELECT `k`, `n`, `total`, `top`, `any_big`, `_t_count`, `_t_0_n`, `_t_1_n`, `_t_1_s`, `_t_2_x`, `_t_3_t`, `_t_3_f`, 1L AS `_t_w` FROM project_1
  UNION ALL SELECT `k`, `n`, `total`, `top`, `any_big`, `_t_count`, `_t_0_n`, `_t_1_n`, `_t_1_s`, `_t_2_x`, `_t_3_t`, `_t_3_f`, -1L AS `_t_w` FROM project_2
