-- The careful step of a top
-- query
SELECT id, 10 / v AS v FROM a ORDER BY id LIMIT 3
-- steps
-- delta
WITH scan_1 AS (
  SELECT `id` AS `a_id`, `v` AS `a_v` FROM `s`.`a`
),
project_2 AS (
  SELECT `a_id` AS `id`, 10 / `a_v` AS `v` FROM scan_1
),
topk_3 AS (
  SELECT `id`, `v` FROM project_2 ORDER BY `id` LIMIT 3
),
project_4 AS (
  SELECT `id`, `v` FROM topk_3
),
project_5 AS (
  SELECT `id`, `v` FROM project_4
),
stored_6 AS (
  SELECT `id` AS `id`, `v` AS `v` FROM `stored rows`
),
unionall_7 AS (
  SELECT `id`, `v`, 1L AS `_t_w` FROM project_5
  UNION ALL SELECT `id`, `v`, -1L AS `_t_w` FROM stored_6
),
aggregate_8 AS (
  SELECT `id`, named_struct('v', `v`, 'zero', CASE WHEN `v` = 0 THEN CAST(`v` AS STRING) END) AS `_t_i_v`, any_value(`v`) AS `v`, sum(`_t_w`) AS `_t_w` FROM unionall_7 GROUP BY 1, 2
)
SELECT `id`, `v`, xxhash64(`id`, `v`) AS `_t_hash`, `_t_w` FROM aggregate_8 WHERE NOT (`_t_w` = 0);

-- leaving, if rows leave
WITH filter_1 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `v` AS `_t_o_v`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows`
),
join_3 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (named_struct('v', `_t_o_v`, 'zero', CASE WHEN `_t_o_v` = 0 THEN CAST(`_t_o_v` AS STRING) END) <=> named_struct('v', `v`, 'zero', CASE WHEN `v` = 0 THEN CAST(`v` AS STRING) END))
),
window_4 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, named_struct('v', `v`, 'zero', CASE WHEN `v` = 0 THEN CAST(`v` AS STRING) END) ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter
WITH filter_1 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
)
SELECT `id`, `v`, `_t_hash` FROM explode_2;

-- positions of rows that leave
SELECT `_t_file`, `_t_pos` FROM `leaving`
