-- Three inputs, one of them twice: old states before the changing one, new states after it
-- query
SELECT x.id, x.k, b.w, y.v
FROM a AS x JOIN b ON x.k = b.k JOIN a AS y ON b.a_id = y.id
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
  SELECT `a_id` AS `a_id`, `k` AS `k`, `w` AS `w` FROM `s`.`b`
),
asof_2 AS (
  SELECT `a_id` AS `a_id`, `k` AS `k`, `w` AS `w` FROM `s`.`b` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `a_id`, `k`, `w`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `a_id`, `k`, `w`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `a_id`, `k`, `w`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2, 3
)
SELECT `a_id`, `k`, `w`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

-- stored rows of s.join
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.join` AS
WITH asof_1 AS (
  SELECT `id` AS `x_id`, `k` AS `x_k` FROM `s`.`a` VERSION AS OF 1
),
asof_2 AS (
  SELECT `a_id` AS `b_a_id`, `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
asof_3 AS (
  SELECT `id` AS `y_id`, `v` AS `y_v` FROM `s`.`a` VERSION AS OF 1
),
join_4 AS (
  SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v` FROM asof_1
  JOIN asof_2 ON (`x_k` = `b_k`)
  JOIN asof_3 ON (`b_a_id` = `y_id`)
),
project_5 AS (
  SELECT `x_id` AS `id`, `x_k` AS `k`, `b_w` AS `w`, `y_v` AS `v` FROM join_4
),
project_6 AS (
  SELECT `id`, `k`, `w`, `v` FROM project_5
),
project_7 AS (
  SELECT `id`, `k`, `w`, `v`, xxhash64(`id`, `k`, `w`, `v`) AS `_t_hash` FROM project_6
)
SELECT `id`, `k`, `w`, `v`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_7;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH changes_1 AS (
  SELECT `id` AS `x_id`, `k` AS `x_k`, `_t_w` FROM `changes of s.a`
),
asof_2 AS (
  SELECT `a_id` AS `b_a_id`, `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b`
),
asof_3 AS (
  SELECT `id` AS `y_id`, `v` AS `y_v` FROM `s`.`a`
),
join_4 AS (
  SELECT `x_id`, `x_k`, `_t_w`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v` FROM changes_1
  JOIN asof_2 ON (`x_k` = `b_k`)
  JOIN asof_3 ON (`b_a_id` = `y_id`)
),
project_5 AS (
  SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v`, `_t_w` FROM join_4
),
changes_6 AS (
  SELECT `a_id` AS `b_a_id`, `k` AS `b_k`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
asof_7 AS (
  SELECT `id` AS `x_id`, `k` AS `x_k` FROM `s`.`a` VERSION AS OF 1
),
join_8 AS (
  SELECT `b_a_id`, `b_k`, `b_w`, `_t_w`, `x_id`, `x_k`, `y_id`, `y_v` FROM changes_6
  JOIN asof_7 ON (`x_k` = `b_k`)
  JOIN asof_3 ON (`b_a_id` = `y_id`)
),
project_9 AS (
  SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v`, `_t_w` FROM join_8
),
changes_10 AS (
  SELECT `id` AS `y_id`, `v` AS `y_v`, `_t_w` FROM `changes of s.a`
),
asof_11 AS (
  SELECT `a_id` AS `b_a_id`, `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
join_12 AS (
  SELECT `y_id`, `y_v`, `_t_w`, `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w` FROM changes_10
  JOIN asof_11 ON (`b_a_id` = `y_id`)
  JOIN asof_7 ON (`x_k` = `b_k`)
),
project_13 AS (
  SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v`, `_t_w` FROM join_12
),
unionall_14 AS (
  SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v`, `_t_w` FROM project_5
  UNION ALL SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v`, `_t_w` FROM project_9
  UNION ALL SELECT `x_id`, `x_k`, `b_a_id`, `b_k`, `b_w`, `y_id`, `y_v`, `_t_w` FROM project_13
),
project_15 AS (
  SELECT `x_id` AS `id`, `x_k` AS `k`, `b_w` AS `w`, `y_v` AS `v`, `_t_w` FROM unionall_14
),
project_16 AS (
  SELECT `id`, `k`, `w`, `v`, `_t_w` FROM project_15
),
aggregate_17 AS (
  SELECT `id`, `k`, `w`, `v`, sum(`_t_w`) AS `_t_w` FROM project_16 GROUP BY 1, 2, 3, 4
),
filter_18 AS (
  SELECT `id`, `k`, `w`, `v`, `_t_w` FROM aggregate_17 WHERE NOT (`_t_w` = 0)
)
SELECT `id`, `k`, `w`, `v`, xxhash64(`id`, `k`, `w`, `v`) AS `_t_hash`, `_t_w` FROM filter_18;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `id`, `k`, `w`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `k` AS `_t_o_k`, `w` AS `_t_o_w`, `v` AS `_t_o_v`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.join`
),
join_3 AS (
  SELECT `id`, `k`, `w`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_k`, `_t_o_w`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (`_t_o_k` <=> `k`) AND (`_t_o_w` <=> `w`) AND (`_t_o_v` <=> `v`)
),
window_4 AS (
  SELECT `id`, `k`, `w`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_k`, `_t_o_w`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, `k`, `w`, `v` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `k`, `w`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_k`, `_t_o_w`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.join` AS
WITH filter_1 AS (
  SELECT `id`, `k`, `w`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `k`, `w`, `v`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `id`, `k`, `w`, `v`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `id`, `k`, `w`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
)
SELECT `id`, `k`, `w`, `v`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `id`, `k`, `w`, `v`, `_t_hash`, `_t_w` FROM filter_4
