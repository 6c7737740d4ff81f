-- Windows at the root: affected partitions from the new state, compared with storage
-- query
SELECT id, k, v, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM a
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

-- stored rows of s.root_partitions
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.root_partitions` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
window_2 AS (
  SELECT `a_id`, `a_k`, `a_v`, rank() OVER (PARTITION BY `a_k` ORDER BY `a_v`) AS `w_rank` FROM asof_1
),
project_3 AS (
  SELECT `a_id` AS `id`, `a_k` AS `k`, `a_v` AS `v`, `w_rank` AS `r` FROM window_2
),
project_4 AS (
  SELECT `id`, `k`, `v`, `r`, xxhash64(`id`, `k`, `v`, `r`) AS `_t_hash` FROM project_3
)
SELECT `id`, `k`, `v`, `r`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_4;

-- affected
CREATE OR REPLACE TEMPORARY VIEW `affected` AS
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_2 AS (
  SELECT `a_k` AS `p__key` FROM changes_1
)
SELECT DISTINCT `p__key` FROM project_2;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
named_2 AS (
  SELECT `p__key` FROM `affected`
),
restrict_3 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_1 LEFT SEMI JOIN named_2 ON (`a_k`) <=> named_2.`p__key`
),
window_4 AS (
  SELECT `a_id`, `a_k`, `a_v`, rank() OVER (PARTITION BY `a_k` ORDER BY `a_v`) AS `w_rank` FROM restrict_3
),
project_5 AS (
  SELECT `a_id` AS `id`, `a_k` AS `k`, `a_v` AS `v`, `w_rank` AS `r` FROM window_4
),
project_6 AS (
  SELECT `id`, `k`, `v`, `r` FROM project_5
),
weigh_7 AS (
  SELECT `id`, `k`, `v`, `r`, 1L AS `_t_w` FROM project_6
),
stored_8 AS (
  SELECT `id` AS `id`, `k` AS `k`, `v` AS `v`, `r` AS `r` FROM `stored rows of s.root_partitions`
),
restrict_9 AS (
  SELECT `id`, `k`, `v`, `r` FROM stored_8 LEFT SEMI JOIN named_2 ON (`k`) <=> named_2.`p__key`
),
weigh_10 AS (
  SELECT `id`, `k`, `v`, `r`, -1L AS `_t_w` FROM restrict_9
),
unionall_11 AS (
  SELECT `id`, `k`, `v`, `r`, `_t_w` FROM weigh_7
  UNION ALL SELECT `id`, `k`, `v`, `r`, `_t_w` FROM weigh_10
),
aggregate_12 AS (
  SELECT `id`, `k`, `v`, `r`, sum(`_t_w`) AS `_t_w` FROM unionall_11 GROUP BY 1, 2, 3, 4
),
filter_13 AS (
  SELECT `id`, `k`, `v`, `r`, `_t_w` FROM aggregate_12 WHERE NOT (`_t_w` = 0)
)
SELECT `id`, `k`, `v`, `r`, xxhash64(`id`, `k`, `v`, `r`) AS `_t_hash`, `_t_w` FROM filter_13;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `id`, `k`, `v`, `r`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `k` AS `_t_o_k`, `v` AS `_t_o_v`, `r` AS `_t_o_r`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.root_partitions`
),
join_3 AS (
  SELECT `id`, `k`, `v`, `r`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_k`, `_t_o_v`, `_t_o_r`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (`_t_o_k` <=> `k`) AND (`_t_o_v` <=> `v`) AND (`_t_o_r` <=> `r`)
),
window_4 AS (
  SELECT `id`, `k`, `v`, `r`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_k`, `_t_o_v`, `_t_o_r`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, `k`, `v`, `r` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `k`, `v`, `r`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_k`, `_t_o_v`, `_t_o_r`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.root_partitions` AS
WITH filter_1 AS (
  SELECT `id`, `k`, `v`, `r`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `k`, `v`, `r`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `id`, `k`, `v`, `r`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `id`, `k`, `v`, `r`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
)
SELECT `id`, `k`, `v`, `r`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `id`, `k`, `v`, `r`, `_t_hash`, `_t_w` FROM filter_4
