-- The careful step of a recursion
-- query
WITH RECURSIVE r AS (SELECT id, 1 AS n FROM a UNION ALL SELECT b.w, n + 1 FROM r JOIN b ON b.a_id = r.id WHERE n < 4) SELECT * FROM r
-- steps
-- delta
WITH scan_1 AS (
  SELECT `c0` AS `r_id`, `c1` AS `r_n` FROM `_trickle`.`s__careful_levels__state1`
),
project_2 AS (
  SELECT `r_id` AS `id_2`, `r_n` AS `n_2` FROM scan_1
),
project_3 AS (
  SELECT `id_2` AS `id`, `n_2` AS `n` FROM project_2
),
project_4 AS (
  SELECT `id`, `n` FROM project_3
),
stored_5 AS (
  SELECT `id` AS `id`, `n` AS `n` FROM `stored rows`
),
unionall_6 AS (
  SELECT `id`, `n`, 1L AS `_t_w` FROM project_4
  UNION ALL SELECT `id`, `n`, -1L AS `_t_w` FROM stored_5
),
aggregate_7 AS (
  SELECT `id`, `n`, sum(`_t_w`) AS `_t_w` FROM unionall_6 GROUP BY 1, 2
)
SELECT `id`, `n`, xxhash64(`id`, `n`) AS `_t_hash`, `_t_w` FROM aggregate_7 WHERE NOT (`_t_w` = 0);

-- leaving, if rows leave
WITH filter_1 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `n` AS `_t_o_n`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows`
),
join_3 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_n`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (`_t_o_n` <=> `n`)
),
window_4 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_n`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, `n` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_n`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter
WITH filter_1 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `n`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
)
SELECT `id`, `n`, `_t_hash` FROM explode_2;

-- positions of rows that leave
SELECT `_t_file`, `_t_pos` FROM `leaving`
