-- The careful step of partitions
-- query
SELECT id, sum(10 / v) OVER (PARTITION BY k) AS total FROM a
-- steps
-- delta
WITH scan_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
window_2 AS (
  SELECT `a_id`, `a_k`, `a_v`, sum(10 / `a_v`) OVER (PARTITION BY `a_k`) AS `w_sum` FROM scan_1
),
project_3 AS (
  SELECT `a_id` AS `id`, `w_sum` AS `total`, `a_k` AS `_t_k0` FROM window_2
),
project_4 AS (
  SELECT `id`, `total`, `_t_k0` FROM project_3
),
stored_5 AS (
  SELECT `id` AS `id`, `total` AS `total`, `_t_k0` AS `_t_k0` FROM `stored rows`
),
unionall_6 AS (
  SELECT `id`, `total`, `_t_k0`, 1L AS `_t_w` FROM project_4
  UNION ALL SELECT `id`, `total`, `_t_k0`, -1L AS `_t_w` FROM stored_5
),
aggregate_7 AS (
  SELECT `id`, named_struct('v', `total`, 'zero', CASE WHEN `total` = 0 THEN CAST(`total` AS STRING) END) AS `_t_i_total`, `_t_k0`, any_value(`total`) AS `total`, sum(`_t_w`) AS `_t_w` FROM unionall_6 GROUP BY 1, 2, 3
)
SELECT `id`, `total`, `_t_k0`, xxhash64(`id`, `total`, `_t_k0`) AS `_t_hash`, `_t_w` FROM aggregate_7 WHERE NOT (`_t_w` = 0);

-- leaving, if rows leave
WITH filter_1 AS (
  SELECT `id`, `total`, `_t_k0`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `total` AS `_t_o_total`, `_t_k0` AS `_t_o__t_k0`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows`
),
join_3 AS (
  SELECT `id`, `total`, `_t_k0`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_total`, `_t_o__t_k0`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (named_struct('v', `_t_o_total`, 'zero', CASE WHEN `_t_o_total` = 0 THEN CAST(`_t_o_total` AS STRING) END) <=> named_struct('v', `total`, 'zero', CASE WHEN `total` = 0 THEN CAST(`total` AS STRING) END)) AND (`_t_o__t_k0` <=> `_t_k0`)
),
window_4 AS (
  SELECT `id`, `total`, `_t_k0`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_total`, `_t_o__t_k0`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, named_struct('v', `total`, 'zero', CASE WHEN `total` = 0 THEN CAST(`total` AS STRING) END), `_t_k0` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `total`, `_t_k0`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_total`, `_t_o__t_k0`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter
WITH filter_1 AS (
  SELECT `id`, `total`, `_t_k0`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `total`, `_t_k0`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
)
SELECT `id`, `total`, `_t_k0`, `_t_hash` FROM explode_2;

-- positions of rows that leave
SELECT `_t_file`, `_t_pos` FROM `leaving`
