-- DISTINCT below a join: the rows that appeared or disappeared
-- query
SELECT d.k, b.w FROM (SELECT DISTINCT k FROM a WHERE v > 1) AS d JOIN b ON d.k = b.k
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

-- changes of s.b
CREATE OR REPLACE TEMPORARY VIEW `changes of s.b` AS
WITH asof_1 AS (
  SELECT `k` AS `k`, `w` AS `w` FROM `s`.`b`
),
asof_2 AS (
  SELECT `k` AS `k`, `w` AS `w` FROM `s`.`b` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `k`, `w`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `k`, `w`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `k`, `w`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2
)
SELECT `k`, `w`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

-- stored rows of s.distinct
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.distinct` AS
WITH asof_1 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
project_2 AS (
  SELECT `a_k` AS `k` FROM asof_1 WHERE `a_v` > 1
),
distinct_3 AS (
  SELECT DISTINCT `k` FROM project_2
),
asof_4 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
join_5 AS (
  SELECT `k`, `b_k`, `b_w` FROM distinct_3
  JOIN asof_4 ON (`k` = `b_k`)
),
project_6 AS (
  SELECT `k` AS `k_2`, `b_w` AS `w` FROM join_5
),
project_7 AS (
  SELECT `k_2` AS `k`, `w` FROM project_6
),
project_8 AS (
  SELECT `k`, `w`, xxhash64(`k`, `w`) AS `_t_hash` FROM project_7
)
SELECT `k`, `w`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_8;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH asof_1 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
changes_2 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
filter_3 AS (
  SELECT `a_k`, `a_v`, `_t_w` FROM changes_2 WHERE `a_v` > 1
),
project_4 AS (
  SELECT `a_k` AS `k`, `_t_w` FROM filter_3
),
project_5 AS (
  SELECT `k` AS `k__key` FROM project_4
),
distinct_6 AS (
  SELECT DISTINCT `k__key` FROM project_5
),
restrict_7 AS (
  SELECT `a_k`, `a_v` FROM asof_1 LEFT SEMI JOIN distinct_6 ON (`a_k`) <=> distinct_6.`k__key`
),
filter_8 AS (
  SELECT `a_k`, `a_v` FROM restrict_7 WHERE `a_v` > 1
),
project_9 AS (
  SELECT `a_k` AS `k` FROM filter_8
),
aggregate_10 AS (
  SELECT `k` FROM project_9 GROUP BY 1
),
weigh_11 AS (
  SELECT `k`, 1L AS `_t_w` FROM aggregate_10
),
asof_12 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
restrict_13 AS (
  SELECT `a_k`, `a_v` FROM asof_12 LEFT SEMI JOIN distinct_6 ON (`a_k`) <=> distinct_6.`k__key`
),
filter_14 AS (
  SELECT `a_k`, `a_v` FROM restrict_13 WHERE `a_v` > 1
),
project_15 AS (
  SELECT `a_k` AS `k` FROM filter_14
),
aggregate_16 AS (
  SELECT `k` FROM project_15 GROUP BY 1
),
weigh_17 AS (
  SELECT `k`, -1L AS `_t_w` FROM aggregate_16
),
unionall_18 AS (
  SELECT `k`, `_t_w` FROM weigh_11
  UNION ALL SELECT `k`, `_t_w` FROM weigh_17
),
asof_19 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b`
),
join_20 AS (
  SELECT `k`, `_t_w`, `b_k`, `b_w` FROM unionall_18
  JOIN asof_19 ON (`k` = `b_k`)
),
project_21 AS (
  SELECT `k`, `b_k`, `b_w`, `_t_w` FROM join_20
),
changes_22 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
project_23 AS (
  SELECT `a_k` AS `k` FROM asof_12 WHERE `a_v` > 1
),
distinct_24 AS (
  SELECT DISTINCT `k` FROM project_23
),
join_25 AS (
  SELECT `b_k`, `b_w`, `_t_w`, `k` FROM changes_22
  JOIN distinct_24 ON (`k` = `b_k`)
),
project_26 AS (
  SELECT `k`, `b_k`, `b_w`, `_t_w` FROM join_25
),
unionall_27 AS (
  SELECT `k`, `b_k`, `b_w`, `_t_w` FROM project_21
  UNION ALL SELECT `k`, `b_k`, `b_w`, `_t_w` FROM project_26
),
project_28 AS (
  SELECT `k` AS `k_2`, `b_w` AS `w`, `_t_w` FROM unionall_27
),
project_29 AS (
  SELECT `k_2` AS `k`, `w`, `_t_w` FROM project_28
),
aggregate_30 AS (
  SELECT `k`, `w`, sum(`_t_w`) AS `_t_w` FROM project_29 GROUP BY 1, 2
),
filter_31 AS (
  SELECT `k`, `w`, `_t_w` FROM aggregate_30 WHERE NOT (`_t_w` = 0)
)
SELECT `k`, `w`, xxhash64(`k`, `w`) AS `_t_hash`, `_t_w` FROM filter_31;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `k` AS `_t_o_k`, `w` AS `_t_o_w`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.distinct`
),
join_3 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_w`, `_t_o_k`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_k` <=> `k`) AND (`_t_o_w` <=> `w`)
),
window_4 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_w`, `_t_o_k`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `k`, `w` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_w`, `_t_o_k`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.distinct` AS
WITH filter_1 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `k`, `w`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
)
SELECT `k`, `w`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `k`, `w`, `_t_hash`, `_t_w` FROM filter_4
