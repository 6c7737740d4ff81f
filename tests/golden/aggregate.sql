-- An aggregate below a join: the affected groups, old and new
-- query
SELECT t.k, t.total, b.w FROM (SELECT k, sum(v) AS total, count(*) AS n FROM a GROUP BY k) AS t JOIN b ON t.k = b.k
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

-- stored rows of s.aggregate
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.aggregate` AS
WITH asof_1 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
aggregate_2 AS (
  SELECT `a_k` AS `k_k`, sum(`a_v`) AS `a_sum` FROM asof_1 GROUP BY 1
),
project_3 AS (
  SELECT `k_k` AS `k`, `a_sum` AS `total` FROM aggregate_2
),
asof_4 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
join_5 AS (
  SELECT `k`, `total`, `b_k`, `b_w` FROM project_3
  JOIN asof_4 ON (`k` = `b_k`)
),
project_6 AS (
  SELECT `k` AS `k_2`, `total` AS `total_2`, `b_w` AS `w` FROM join_5
),
project_7 AS (
  SELECT `k_2` AS `k`, `total_2` AS `total`, `w` FROM project_6
),
project_8 AS (
  SELECT `k`, `total`, `w`, xxhash64(`k`, `total`, `w`) AS `_t_hash` FROM project_7
)
SELECT `k`, `total`, `w`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_8;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH asof_1 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
changes_2 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_3 AS (
  SELECT `a_k` AS `k_k__key` FROM changes_2
),
distinct_4 AS (
  SELECT DISTINCT `k_k__key` FROM project_3
),
restrict_5 AS (
  SELECT `a_k`, `a_v` FROM asof_1 LEFT SEMI JOIN distinct_4 ON (`a_k`) <=> distinct_4.`k_k__key`
),
aggregate_6 AS (
  SELECT `a_k` AS `k_k`, sum(`a_v`) AS `a_sum` FROM restrict_5 GROUP BY 1
),
weigh_7 AS (
  SELECT `k_k`, `a_sum`, 1L AS `_t_w` FROM aggregate_6
),
asof_8 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
restrict_9 AS (
  SELECT `a_k`, `a_v` FROM asof_8 LEFT SEMI JOIN distinct_4 ON (`a_k`) <=> distinct_4.`k_k__key`
),
aggregate_10 AS (
  SELECT `a_k` AS `k_k`, sum(`a_v`) AS `a_sum` FROM restrict_9 GROUP BY 1
),
weigh_11 AS (
  SELECT `k_k`, `a_sum`, -1L AS `_t_w` FROM aggregate_10
),
unionall_12 AS (
  SELECT `k_k`, `a_sum`, `_t_w` FROM weigh_7
  UNION ALL SELECT `k_k`, `a_sum`, `_t_w` FROM weigh_11
),
project_13 AS (
  SELECT `k_k` AS `k`, `a_sum` AS `total`, `_t_w` FROM unionall_12
),
asof_14 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b`
),
join_15 AS (
  SELECT `k`, `total`, `_t_w`, `b_k`, `b_w` FROM project_13
  JOIN asof_14 ON (`k` = `b_k`)
),
project_16 AS (
  SELECT `k`, `total`, `b_k`, `b_w`, `_t_w` FROM join_15
),
changes_17 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
aggregate_18 AS (
  SELECT `a_k` AS `k_k`, sum(`a_v`) AS `a_sum` FROM asof_8 GROUP BY 1
),
project_19 AS (
  SELECT `k_k` AS `k`, `a_sum` AS `total` FROM aggregate_18
),
join_20 AS (
  SELECT `b_k`, `b_w`, `_t_w`, `k`, `total` FROM changes_17
  JOIN project_19 ON (`k` = `b_k`)
),
project_21 AS (
  SELECT `k`, `total`, `b_k`, `b_w`, `_t_w` FROM join_20
),
unionall_22 AS (
  SELECT `k`, `total`, `b_k`, `b_w`, `_t_w` FROM project_16
  UNION ALL SELECT `k`, `total`, `b_k`, `b_w`, `_t_w` FROM project_21
),
project_23 AS (
  SELECT `k` AS `k_2`, `total` AS `total_2`, `b_w` AS `w`, `_t_w` FROM unionall_22
),
project_24 AS (
  SELECT `k_2` AS `k`, `total_2` AS `total`, `w`, `_t_w` FROM project_23
),
aggregate_25 AS (
  SELECT `k`, `total`, `w`, sum(`_t_w`) AS `_t_w` FROM project_24 GROUP BY 1, 2, 3
),
filter_26 AS (
  SELECT `k`, `total`, `w`, `_t_w` FROM aggregate_25 WHERE NOT (`_t_w` = 0)
)
SELECT `k`, `total`, `w`, xxhash64(`k`, `total`, `w`) AS `_t_hash`, `_t_w` FROM filter_26;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `k`, `total`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `k` AS `_t_o_k`, `total` AS `_t_o_total`, `w` AS `_t_o_w`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.aggregate`
),
join_3 AS (
  SELECT `k`, `total`, `w`, `_t_hash`, `_t_w`, `_t_o_k`, `_t_o_total`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_k` <=> `k`) AND (`_t_o_total` <=> `total`) AND (`_t_o_w` <=> `w`)
),
window_4 AS (
  SELECT `k`, `total`, `w`, `_t_hash`, `_t_w`, `_t_o_k`, `_t_o_total`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `k`, `total`, `w` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `k`, `total`, `w`, `_t_hash`, `_t_w`, `_t_o_k`, `_t_o_total`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.aggregate` AS
WITH filter_1 AS (
  SELECT `k`, `total`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `k`, `total`, `w`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `k`, `total`, `w`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `k`, `total`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
)
SELECT `k`, `total`, `w`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `k`, `total`, `w`, `_t_hash`, `_t_w` FROM filter_4
