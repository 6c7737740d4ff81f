-- A table as it is: its change feed
-- query
SELECT * FROM a
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

-- stored rows of s.scan
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.scan` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_k` AS `k`, `a_v` AS `v` FROM asof_1
),
project_3 AS (
  SELECT `id`, `k`, `v` FROM project_2
),
project_4 AS (
  SELECT `id`, `k`, `v`, xxhash64(`id`, `k`, `v`) AS `_t_hash` FROM project_3
)
SELECT `id`, `k`, `v`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_4;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_k` AS `k`, `a_v` AS `v`, `_t_w` FROM changes_1
),
project_3 AS (
  SELECT `id`, `k`, `v`, `_t_w` FROM project_2
),
aggregate_4 AS (
  SELECT `id`, `k`, `v`, sum(`_t_w`) AS `_t_w` FROM project_3 GROUP BY 1, 2, 3
),
filter_5 AS (
  SELECT `id`, `k`, `v`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0)
)
SELECT `id`, `k`, `v`, xxhash64(`id`, `k`, `v`) AS `_t_hash`, `_t_w` FROM filter_5;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `id`, `k`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `k` AS `_t_o_k`, `v` AS `_t_o_v`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.scan`
),
join_3 AS (
  SELECT `id`, `k`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_k`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (`_t_o_k` <=> `k`) AND (`_t_o_v` <=> `v`)
),
window_4 AS (
  SELECT `id`, `k`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_k`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, `k`, `v` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `k`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_k`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.scan` AS
WITH filter_1 AS (
  SELECT `id`, `k`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `k`, `v`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `id`, `k`, `v`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `id`, `k`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
)
SELECT `id`, `k`, `v`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `id`, `k`, `v`, `_t_hash`, `_t_w` FROM filter_4
