-- Where most groups are affected: the same without a restriction to their keys
-- query
SELECT k, max_by(v, id) AS latest FROM a GROUP BY k
-- steps
-- merged, whole
WITH named_1 AS (
  SELECT `k_k__key` FROM `affected`
),
asof_2 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
aggregate_3 AS (
  SELECT `a_k` AS `k_k`, max_by(`a_v`, `a_id`) AS `a_max_by` FROM asof_2 GROUP BY 1
),
project_4 AS (
  SELECT `k_k` AS `k`, `a_max_by` AS `latest` FROM aggregate_3
),
project_5 AS (
  SELECT `k` AS `_t_n_k`, `latest` AS `_t_n_latest`, TRUE AS `_t_fresh` FROM project_4
),
outerjoin_6 AS (
  SELECT `k_k__key`, `_t_n_k`, `_t_n_latest`, `_t_fresh` FROM named_1 LEFT OUTER JOIN project_5 ON (`k_k__key` <=> `_t_n_k`)
),
stored_7 AS (
  SELECT `k` AS `_t_o_k`, `latest` AS `_t_o_latest`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows`
),
restrict_8 AS (
  SELECT `_t_o_k`, `_t_o_latest`, `_t_file`, `_t_pos` FROM stored_7 LEFT SEMI JOIN named_1 ON (`_t_o_k`) <=> named_1.`k_k__key`
),
outerjoin_9 AS (
  SELECT `k_k__key`, `_t_n_k`, `_t_n_latest`, `_t_fresh`, `_t_o_k`, `_t_o_latest`, `_t_file`, `_t_pos` FROM outerjoin_6 LEFT OUTER JOIN restrict_8 ON (`k_k__key` <=> `_t_o_k`)
),
project_10 AS (
  SELECT `_t_file`, `_t_pos`, coalesce(`_t_fresh`, FALSE) AS `_t_lives`, FALSE AS `_t_lost`, `_t_n_k`, `_t_n_latest`, `_t_o_k`, `_t_o_latest` FROM outerjoin_9
),
project_11 AS (
  SELECT `_t_file`, `_t_pos`, `_t_lives`, `_t_lost`, `_t_n_k`, `_t_n_latest`, `_t_o_k`, `_t_o_latest`, (`_t_n_k` <=> `_t_o_k`) AND (`_t_n_latest` <=> `_t_o_latest`) AS `_t_same` FROM project_10
)
SELECT `_t_file`, `_t_pos`, `_t_lost`, `_t_n_k`, `_t_n_latest`, `_t_o_k`, `_t_o_latest`, (NOT (`_t_file` IS NULL)) AND (NOT (`_t_lives` AND `_t_same`)) AS `_t_leaves`, `_t_lives` AND (NOT ((NOT (`_t_file` IS NULL)) AND `_t_same`)) AS `_t_enters`, (NOT (`_t_file` IS NULL)) AND `_t_lives` AND (NOT `_t_same`) AS `_t_updated` FROM project_11
