-- Rows that never change, joined
-- query
SELECT a.id, c.name FROM a JOIN (VALUES ('a', 'one'), ('b', 'two')) AS c(k, name) ON a.k = c.k
-- delta
-- changes of s.a
CREATE OR REPLACE TEMPORARY VIEW `changes of s.a` AS
WITH asof_1 AS (
  SELECT `id` AS `id`, `k` AS `k` FROM `s`.`a`
),
asof_2 AS (
  SELECT `id` AS `id`, `k` AS `k` FROM `s`.`a` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `id`, `k`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `id`, `k`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `id`, `k`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2
)
SELECT `id`, `k`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

-- stored rows of s.constant
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.constant` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k` FROM `s`.`a` VERSION AS OF 1
),
constant_2 AS (
  SELECT `c_k`, `c_name` FROM VALUES ('a', 'one'), ('b', 'two') AS `c`(`c_k`, `c_name`)
),
join_3 AS (
  SELECT `a_id`, `a_k`, `c_k`, `c_name` FROM asof_1
  JOIN constant_2 ON (`a_k` = `c_k`)
),
project_4 AS (
  SELECT `a_id` AS `id`, `c_name` AS `name` FROM join_3
),
project_5 AS (
  SELECT `id`, `name` FROM project_4
),
project_6 AS (
  SELECT `id`, `name`, xxhash64(`id`, `name`) AS `_t_hash` FROM project_5
)
SELECT `id`, `name`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_6;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `_t_w` FROM `changes of s.a`
),
constant_2 AS (
  SELECT `c_k`, `c_name` FROM VALUES ('a', 'one'), ('b', 'two') AS `c`(`c_k`, `c_name`)
),
join_3 AS (
  SELECT `a_id`, `a_k`, `_t_w`, `c_k`, `c_name` FROM changes_1
  JOIN constant_2 ON (`a_k` = `c_k`)
),
project_4 AS (
  SELECT `a_id`, `a_k`, `c_k`, `c_name`, `_t_w` FROM join_3
),
project_5 AS (
  SELECT `a_id` AS `id`, `c_name` AS `name`, `_t_w` FROM project_4
),
project_6 AS (
  SELECT `id`, `name`, `_t_w` FROM project_5
),
aggregate_7 AS (
  SELECT `id`, `name`, sum(`_t_w`) AS `_t_w` FROM project_6 GROUP BY 1, 2
),
filter_8 AS (
  SELECT `id`, `name`, `_t_w` FROM aggregate_7 WHERE NOT (`_t_w` = 0)
)
SELECT `id`, `name`, xxhash64(`id`, `name`) AS `_t_hash`, `_t_w` FROM filter_8;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `id`, `name`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `name` AS `_t_o_name`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.constant`
),
join_3 AS (
  SELECT `id`, `name`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_name`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (`_t_o_name` <=> `name`)
),
window_4 AS (
  SELECT `id`, `name`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_name`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, `name` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `name`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_name`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.constant` AS
WITH filter_1 AS (
  SELECT `id`, `name`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `name`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `id`, `name`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `id`, `name`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
)
SELECT `id`, `name`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `id`, `name`, `_t_hash`, `_t_w` FROM filter_4
