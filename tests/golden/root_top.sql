-- The top rows: recomputed only if a changed row reaches them
-- query
SELECT id, v FROM a ORDER BY v DESC, id LIMIT 5
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

-- stored rows of s.root_top
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.root_top` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v` FROM asof_1
),
topk_3 AS (
  SELECT `id`, `v` FROM project_2 ORDER BY `v` DESC, `id` LIMIT 5
),
project_4 AS (
  SELECT `id`, `v` FROM topk_3
),
project_5 AS (
  SELECT `id`, `v`, xxhash64(`id`, `v`) AS `_t_hash` FROM project_4
)
SELECT `id`, `v`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_5;

-- order of the change
CREATE OR REPLACE TEMPORARY VIEW `order of the change` AS
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v`, `_t_w` FROM changes_1
),
project_3 AS (
  SELECT `v`, `id` FROM project_2
)
SELECT DISTINCT `v`, `id` FROM project_3;

-- affected
CREATE OR REPLACE TEMPORARY VIEW `affected` AS
WITH stored_1 AS (
  SELECT `v` AS `v`, `id` AS `id` FROM `stored rows of s.root_top`
),
unionall_2 AS (
  SELECT `v`, `id`, TRUE AS `_t_stored` FROM stored_1
  UNION ALL SELECT `v`, `id`, FALSE AS `_t_stored` FROM `order of the change`
),
window_3 AS (
  SELECT `v`, `id`, `_t_stored`, rank() OVER (ORDER BY `v` DESC, `id`) AS `_t_rank` FROM unionall_2
),
aggregate_4 AS (
  SELECT count_if(`_t_stored`) AS `_t_there`, count_if((NOT `_t_stored`) AND (NOT (`_t_rank` > 5))) AS `_t_reached` FROM window_3
),
filter_5 AS (
  SELECT `_t_there`, `_t_reached` FROM aggregate_4 WHERE (`_t_there` < 5) OR (`_t_reached` > 0)
)
SELECT 1 AS `_` FROM filter_5;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a`
),
project_2 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v` FROM asof_1
),
topk_3 AS (
  SELECT `id`, `v` FROM project_2 ORDER BY `v` DESC, `id` LIMIT 5
),
project_4 AS (
  SELECT `id`, `v` FROM topk_3
),
project_5 AS (
  SELECT `id`, `v` FROM project_4
),
stored_6 AS (
  SELECT `id` AS `id`, `v` AS `v` FROM `stored rows of s.root_top`
),
unionall_7 AS (
  SELECT `id`, `v`, 1L AS `_t_w` FROM project_5
  UNION ALL SELECT `id`, `v`, -1L AS `_t_w` FROM stored_6
),
aggregate_8 AS (
  SELECT `id`, `v`, sum(`_t_w`) AS `_t_w` FROM unionall_7 GROUP BY 1, 2
)
SELECT `id`, `v`, xxhash64(`id`, `v`) AS `_t_hash`, `_t_w` FROM aggregate_8 WHERE NOT (`_t_w` = 0);

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `v` AS `_t_o_v`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.root_top`
),
join_3 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (`_t_o_v` <=> `v`)
),
window_4 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, `v` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.root_top` AS
WITH filter_1 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `id`, `v`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
)
SELECT `id`, `v`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `id`, `v`, `_t_hash`, `_t_w` FROM filter_4
