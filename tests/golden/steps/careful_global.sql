-- The careful step of one row
-- query
SELECT sum(10 / v) AS total FROM a
-- steps
-- merged
WITH scan_1 AS (
  SELECT `v` AS `a_v` FROM `s`.`a`
),
aggregate_2 AS (
  SELECT sum(10 / `a_v`) AS `a_sum` FROM scan_1
),
project_3 AS (
  SELECT `a_sum` AS `total` FROM aggregate_2
),
project_4 AS (
  SELECT `total` AS `_t_n_total`, TRUE AS `_t_fresh` FROM project_3
),
stored_5 AS (
  SELECT `total` AS `_t_o_total`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows`
),
window_6 AS (
  SELECT `_t_o_total`, `_t_file`, `_t_pos`, row_number() OVER (ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM stored_5
),
outerjoin_7 AS (
  SELECT `_t_n_total`, `_t_fresh`, `_t_o_total`, `_t_file`, `_t_pos`, `_t_rn` FROM project_4 FULL OUTER JOIN window_6 ON true
),
project_8 AS (
  SELECT `_t_file`, `_t_pos`, NOT (`_t_fresh` IS NULL) AS `_t_lives`, coalesce(`_t_rn` > 1, FALSE) AS `_t_lost`, `_t_n_total`, `_t_o_total` FROM outerjoin_7
),
project_9 AS (
  SELECT `_t_file`, `_t_pos`, `_t_lives`, `_t_lost`, `_t_n_total`, `_t_o_total`, (named_struct('v', `_t_n_total`, 'zero', CASE WHEN `_t_n_total` = 0 THEN CAST(`_t_n_total` AS STRING) END) <=> named_struct('v', `_t_o_total`, 'zero', CASE WHEN `_t_o_total` = 0 THEN CAST(`_t_o_total` AS STRING) END)) AS `_t_same` FROM project_8
)
SELECT `_t_file`, `_t_pos`, `_t_lost`, `_t_n_total`, `_t_o_total`, (NOT (`_t_file` IS NULL)) AND (NOT (`_t_lives` AND `_t_same`)) AS `_t_leaves`, `_t_lives` AND (NOT ((NOT (`_t_file` IS NULL)) AND `_t_same`)) AS `_t_enters`, (NOT (`_t_file` IS NULL)) AND `_t_lives` AND (NOT `_t_same`) AS `_t_updated` FROM project_9;

-- rows that enter
SELECT `_t_n_total` AS `total` FROM `merged` WHERE `_t_enters`;

-- positions of rows that leave
SELECT `_t_file`, `_t_pos` FROM `merged` WHERE `_t_leaves`
