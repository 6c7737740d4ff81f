-- At the root, whole rows: weights say how many copies come and go
-- query
SELECT a.k, b.w FROM a JOIN b ON a.id = b.a_id WHERE a.v < b.w
-- delta
-- changes of s.a
CREATE OR REPLACE TEMPORARY VIEW `changes of s.a` AS
WITH asof_1 AS (
  SELECT `id` AS `id`, `k` AS `k`, `v` AS `v` FROM `s`.`a`
),
asof_2 AS (
  SELECT `id` AS `id`, `k` AS `k`, `v` AS `v` FROM `s`.`a` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `id`, `k`, `v`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `id`, `k`, `v`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `id`, `k`, `v`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2, 3
)
SELECT `id`, `k`, `v`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

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

-- stored rows of s.root_rows
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.root_rows` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
asof_2 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
join_3 AS (
  SELECT `a_id`, `a_k`, `a_v`, `b_a_id`, `b_w` FROM asof_1
  JOIN asof_2 ON (`a_id` = `b_a_id`) AND (`a_v` < `b_w`)
),
project_4 AS (
  SELECT `a_k` AS `k`, `b_w` AS `w` FROM join_3
),
project_5 AS (
  SELECT `k`, `w` FROM project_4
),
project_6 AS (
  SELECT `k`, `w`, xxhash64(`k`, `w`) AS `_t_hash` FROM project_5
)
SELECT `k`, `w`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_6;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
asof_2 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_3 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w`, `b_a_id`, `b_w` FROM changes_1
  JOIN asof_2 ON (`a_id` = `b_a_id`) AND (`a_v` < `b_w`)
),
project_4 AS (
  SELECT `a_id`, `a_k`, `a_v`, `b_a_id`, `b_w`, `_t_w` FROM join_3
),
changes_5 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
asof_6 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
join_7 AS (
  SELECT `b_a_id`, `b_w`, `_t_w`, `a_id`, `a_k`, `a_v` FROM changes_5
  JOIN asof_6 ON (`a_id` = `b_a_id`) AND (`a_v` < `b_w`)
),
project_8 AS (
  SELECT `a_id`, `a_k`, `a_v`, `b_a_id`, `b_w`, `_t_w` FROM join_7
),
unionall_9 AS (
  SELECT `a_id`, `a_k`, `a_v`, `b_a_id`, `b_w`, `_t_w` FROM project_4
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `b_a_id`, `b_w`, `_t_w` FROM project_8
),
project_10 AS (
  SELECT `a_k` AS `k`, `b_w` AS `w`, `_t_w` FROM unionall_9
),
project_11 AS (
  SELECT `k`, `w`, `_t_w` FROM project_10
),
aggregate_12 AS (
  SELECT `k`, `w`, sum(`_t_w`) AS `_t_w` FROM project_11 GROUP BY 1, 2
),
filter_13 AS (
  SELECT `k`, `w`, `_t_w` FROM aggregate_12 WHERE NOT (`_t_w` = 0)
)
SELECT `k`, `w`, xxhash64(`k`, `w`) AS `_t_hash`, `_t_w` FROM filter_13;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `k` AS `_t_o_k`, `w` AS `_t_o_w`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.root_rows`
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
CREATE OR REPLACE TEMPORARY VIEW `changes of s.root_rows` AS
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
