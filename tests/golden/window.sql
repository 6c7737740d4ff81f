-- Windows below a join, where the root cannot keep them by partition
-- query
SELECT x.id, x.r, x.total, b.w
FROM (SELECT id, k, rank() OVER (PARTITION BY k ORDER BY v) AS r, sum(v) OVER (PARTITION BY k) AS total FROM a) AS x
JOIN b ON x.id = b.a_id
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

-- stored rows of s.window
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.window` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
window_2 AS (
  SELECT `a_id`, `a_k`, `a_v`, rank() OVER (PARTITION BY `a_k` ORDER BY `a_v`) AS `w_rank`, sum(`a_v`) OVER (PARTITION BY `a_k`) AS `w_sum` FROM asof_1
),
project_3 AS (
  SELECT `a_id` AS `id`, `w_rank` AS `r`, `w_sum` AS `total` FROM window_2
),
asof_4 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
join_5 AS (
  SELECT `id`, `r`, `total`, `b_a_id`, `b_w` FROM project_3
  JOIN asof_4 ON (`id` = `b_a_id`)
),
project_6 AS (
  SELECT `id` AS `id_2`, `r` AS `r_2`, `total` AS `total_2`, `b_w` AS `w` FROM join_5
),
project_7 AS (
  SELECT `id_2` AS `id`, `r_2` AS `r`, `total_2` AS `total`, `w` FROM project_6
),
project_8 AS (
  SELECT `id`, `r`, `total`, `w`, xxhash64(`id`, `r`, `total`, `w`) AS `_t_hash` FROM project_7
)
SELECT `id`, `r`, `total`, `w`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_8;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
changes_2 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_3 AS (
  SELECT `a_k` AS `p__key` FROM changes_2
),
distinct_4 AS (
  SELECT DISTINCT `p__key` FROM project_3
),
restrict_5 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_1 LEFT SEMI JOIN distinct_4 ON (`a_k`) <=> distinct_4.`p__key`
),
window_6 AS (
  SELECT `a_id`, `a_k`, `a_v`, rank() OVER (PARTITION BY `a_k` ORDER BY `a_v`) AS `w_rank`, sum(`a_v`) OVER (PARTITION BY `a_k`) AS `w_sum` FROM restrict_5
),
weigh_7 AS (
  SELECT `a_id`, `a_k`, `a_v`, `w_rank`, `w_sum`, 1L AS `_t_w` FROM window_6
),
asof_8 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
restrict_9 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_8 LEFT SEMI JOIN distinct_4 ON (`a_k`) <=> distinct_4.`p__key`
),
window_10 AS (
  SELECT `a_id`, `a_k`, `a_v`, rank() OVER (PARTITION BY `a_k` ORDER BY `a_v`) AS `w_rank`, sum(`a_v`) OVER (PARTITION BY `a_k`) AS `w_sum` FROM restrict_9
),
weigh_11 AS (
  SELECT `a_id`, `a_k`, `a_v`, `w_rank`, `w_sum`, -1L AS `_t_w` FROM window_10
),
unionall_12 AS (
  SELECT `a_id`, `a_k`, `a_v`, `w_rank`, `w_sum`, `_t_w` FROM weigh_7
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `w_rank`, `w_sum`, `_t_w` FROM weigh_11
),
project_13 AS (
  SELECT `a_id` AS `id`, `w_rank` AS `r`, `w_sum` AS `total`, `_t_w` FROM unionall_12
),
asof_14 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_15 AS (
  SELECT `id`, `r`, `total`, `_t_w`, `b_a_id`, `b_w` FROM project_13
  JOIN asof_14 ON (`id` = `b_a_id`)
),
project_16 AS (
  SELECT `id`, `r`, `total`, `b_a_id`, `b_w`, `_t_w` FROM join_15
),
changes_17 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
window_18 AS (
  SELECT `a_id`, `a_k`, `a_v`, rank() OVER (PARTITION BY `a_k` ORDER BY `a_v`) AS `w_rank`, sum(`a_v`) OVER (PARTITION BY `a_k`) AS `w_sum` FROM asof_8
),
project_19 AS (
  SELECT `a_id` AS `id`, `w_rank` AS `r`, `w_sum` AS `total` FROM window_18
),
join_20 AS (
  SELECT `b_a_id`, `b_w`, `_t_w`, `id`, `r`, `total` FROM changes_17
  JOIN project_19 ON (`id` = `b_a_id`)
),
project_21 AS (
  SELECT `id`, `r`, `total`, `b_a_id`, `b_w`, `_t_w` FROM join_20
),
unionall_22 AS (
  SELECT `id`, `r`, `total`, `b_a_id`, `b_w`, `_t_w` FROM project_16
  UNION ALL SELECT `id`, `r`, `total`, `b_a_id`, `b_w`, `_t_w` FROM project_21
),
project_23 AS (
  SELECT `id` AS `id_2`, `r` AS `r_2`, `total` AS `total_2`, `b_w` AS `w`, `_t_w` FROM unionall_22
),
project_24 AS (
  SELECT `id_2` AS `id`, `r_2` AS `r`, `total_2` AS `total`, `w`, `_t_w` FROM project_23
),
aggregate_25 AS (
  SELECT `id`, `r`, `total`, `w`, sum(`_t_w`) AS `_t_w` FROM project_24 GROUP BY 1, 2, 3, 4
),
filter_26 AS (
  SELECT `id`, `r`, `total`, `w`, `_t_w` FROM aggregate_25 WHERE NOT (`_t_w` = 0)
)
SELECT `id`, `r`, `total`, `w`, xxhash64(`id`, `r`, `total`, `w`) AS `_t_hash`, `_t_w` FROM filter_26;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `id`, `r`, `total`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `r` AS `_t_o_r`, `total` AS `_t_o_total`, `w` AS `_t_o_w`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.window`
),
join_3 AS (
  SELECT `id`, `r`, `total`, `w`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_r`, `_t_o_total`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (`_t_o_r` <=> `r`) AND (`_t_o_total` <=> `total`) AND (`_t_o_w` <=> `w`)
),
window_4 AS (
  SELECT `id`, `r`, `total`, `w`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_r`, `_t_o_total`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, `r`, `total`, `w` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `r`, `total`, `w`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_r`, `_t_o_total`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.window` AS
WITH filter_1 AS (
  SELECT `id`, `r`, `total`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `r`, `total`, `w`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `id`, `r`, `total`, `w`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `id`, `r`, `total`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
)
SELECT `id`, `r`, `total`, `w`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `id`, `r`, `total`, `w`, `_t_hash`, `_t_w` FROM filter_4
