-- The careful step of whole rows
-- query
SELECT a.k, 10 / b.w AS w FROM a JOIN b ON a.id = b.a_id
-- steps
-- delta
WITH scan_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k` FROM `s`.`a`
),
scan_2 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_3 AS (
  SELECT `a_id`, `a_k`, `b_a_id`, `b_w` FROM scan_1
  JOIN scan_2 ON (`a_id` = `b_a_id`)
),
project_4 AS (
  SELECT `a_k` AS `k`, 10 / `b_w` AS `w` FROM join_3
),
project_5 AS (
  SELECT `k`, `w` FROM project_4
),
project_6 AS (
  SELECT `k`, `w` FROM project_5
),
stored_7 AS (
  SELECT `k` AS `k`, `w` AS `w` FROM `stored rows`
),
unionall_8 AS (
  SELECT `k`, `w`, 1L AS `_t_w` FROM project_6
  UNION ALL SELECT `k`, `w`, -1L AS `_t_w` FROM stored_7
),
aggregate_9 AS (
  SELECT `k`, named_struct('v', `w`, 'zero', CASE WHEN `w` = 0 THEN CAST(`w` AS STRING) END) AS `_t_i_w`, any_value(`w`) AS `w`, sum(`_t_w`) AS `_t_w` FROM unionall_8 GROUP BY 1, 2
)
SELECT `k`, `w`, xxhash64(`k`, `w`) AS `_t_hash`, `_t_w` FROM aggregate_9 WHERE NOT (`_t_w` = 0);

-- leaving, if rows leave
WITH filter_1 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `k` AS `_t_o_k`, `w` AS `_t_o_w`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows`
),
join_3 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_w`, `_t_o_k`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_k` <=> `k`) AND (named_struct('v', `_t_o_w`, 'zero', CASE WHEN `_t_o_w` = 0 THEN CAST(`_t_o_w` AS STRING) END) <=> named_struct('v', `w`, 'zero', CASE WHEN `w` = 0 THEN CAST(`w` AS STRING) END))
),
window_4 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_w`, `_t_o_k`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `k`, named_struct('v', `w`, 'zero', CASE WHEN `w` = 0 THEN CAST(`w` AS STRING) END) ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_w`, `_t_o_k`, `_t_o_w`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter
WITH filter_1 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `k`, `w`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
)
SELECT `k`, `w`, `_t_hash` FROM explode_2;

-- positions of rows that leave
SELECT `_t_file`, `_t_pos` FROM `leaving`
