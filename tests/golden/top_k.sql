-- The first rows by a total order, below a join
-- query
SELECT x.id, x.v, b.w
FROM (SELECT id, v FROM a ORDER BY v DESC, id LIMIT 9 OFFSET 1) AS x JOIN b ON x.id = b.a_id
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

-- stored rows of s.top_k
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.top_k` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v` FROM asof_1
),
topk_3 AS (
  SELECT `id`, `v` FROM project_2 ORDER BY `v` DESC, `id` LIMIT 9 OFFSET 1
),
asof_4 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
join_5 AS (
  SELECT `id`, `v`, `b_a_id`, `b_w` FROM topk_3
  JOIN asof_4 ON (`id` = `b_a_id`)
),
project_6 AS (
  SELECT `id` AS `id_2`, `v` AS `v_2`, `b_w` AS `w` FROM join_5
),
project_7 AS (
  SELECT `id_2` AS `id`, `v_2` AS `v`, `w` FROM project_6
),
project_8 AS (
  SELECT `id`, `v`, `w`, xxhash64(`id`, `v`, `w`) AS `_t_hash` FROM project_7
)
SELECT `id`, `v`, `w`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_8;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a`
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v` FROM asof_1
),
topk_3 AS (
  SELECT `id`, `v` FROM project_2 ORDER BY `v` DESC, `id` LIMIT 9 OFFSET 1
),
changes_4 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_5 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v`, `_t_w` FROM changes_4
),
restrict_6 AS (
  SELECT `id`, `v` FROM topk_3 WHERE EXISTS (SELECT 1 FROM project_5)
),
weigh_7 AS (
  SELECT `id`, `v`, 1L AS `_t_w` FROM restrict_6
),
asof_8 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
project_9 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v` FROM asof_8
),
topk_10 AS (
  SELECT `id`, `v` FROM project_9 ORDER BY `v` DESC, `id` LIMIT 9 OFFSET 1
),
restrict_11 AS (
  SELECT `id`, `v` FROM topk_10 WHERE EXISTS (SELECT 1 FROM project_5)
),
weigh_12 AS (
  SELECT `id`, `v`, -1L AS `_t_w` FROM restrict_11
),
unionall_13 AS (
  SELECT `id`, `v`, `_t_w` FROM weigh_7
  UNION ALL SELECT `id`, `v`, `_t_w` FROM weigh_12
),
asof_14 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_15 AS (
  SELECT `id`, `v`, `_t_w`, `b_a_id`, `b_w` FROM unionall_13
  JOIN asof_14 ON (`id` = `b_a_id`)
),
project_16 AS (
  SELECT `id`, `v`, `b_a_id`, `b_w`, `_t_w` FROM join_15
),
changes_17 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
join_18 AS (
  SELECT `b_a_id`, `b_w`, `_t_w`, `id`, `v` FROM changes_17
  JOIN topk_10 ON (`id` = `b_a_id`)
),
project_19 AS (
  SELECT `id`, `v`, `b_a_id`, `b_w`, `_t_w` FROM join_18
),
unionall_20 AS (
  SELECT `id`, `v`, `b_a_id`, `b_w`, `_t_w` FROM project_16
  UNION ALL SELECT `id`, `v`, `b_a_id`, `b_w`, `_t_w` FROM project_19
),
project_21 AS (
  SELECT `id` AS `id_2`, `v` AS `v_2`, `b_w` AS `w`, `_t_w` FROM unionall_20
),
project_22 AS (
  SELECT `id_2` AS `id`, `v_2` AS `v`, `w`, `_t_w` FROM project_21
),
aggregate_23 AS (
  SELECT `id`, `v`, `w`, sum(`_t_w`) AS `_t_w` FROM project_22 GROUP BY 1, 2, 3
),
filter_24 AS (
  SELECT `id`, `v`, `w`, `_t_w` FROM aggregate_23 WHERE NOT (`_t_w` = 0)
)
SELECT `id`, `v`, `w`, xxhash64(`id`, `v`, `w`) AS `_t_hash`, `_t_w` FROM filter_24;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `id`, `v`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `v` AS `_t_o_v`, `w` AS `_t_o_w`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.top_k`
),
join_3 AS (
  SELECT `id`, `v`, `w`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (`_t_o_v` <=> `v`) AND (`_t_o_w` <=> `w`)
),
window_4 AS (
  SELECT `id`, `v`, `w`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, `v`, `w` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `v`, `w`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.top_k` AS
WITH filter_1 AS (
  SELECT `id`, `v`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `v`, `w`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `id`, `v`, `w`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `id`, `v`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
)
SELECT `id`, `v`, `w`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `id`, `v`, `w`, `_t_hash`, `_t_w` FROM filter_4
