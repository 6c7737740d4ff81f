-- DISTINCT aggregates in two steps: a hidden state table of the values, and sums over it
-- query
SELECT k, count(DISTINCT v) AS n, sum(v) AS total FROM a GROUP BY k
-- steps
-- ---- hidden _trickle.s__distinct_calls__state1 ----

-- change
WITH changes_1 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
)
SELECT `a_k` AS `k_k`, `a_v` AS `a_count__d`, coalesce(sum(`_t_w`), 0) AS `_t_count`, coalesce(sum(CASE WHEN isnotnull(`a_v`) THEN 1 END * `_t_w`), 0) AS `_t_0_n`, CAST(coalesce(sum(CAST(`a_v` AS BIGINT) * `_t_w`), 0) AS BIGINT) AS `_t_0_s` FROM changes_1 GROUP BY 1, 2;

-- merged
WITH named_1 AS (
  SELECT `k_k`, `a_count__d`, `_t_count`, `_t_0_n`, `_t_0_s` FROM `change`
),
stored_2 AS (
  SELECT `c0` AS `_t_o_c0`, `c1` AS `_t_o_c1`, `c2` AS `_t_o_c2`, `_t_count` AS `_t_o__t_count`, `_t_0_n` AS `_t_o__t_0_n`, `_t_0_s` AS `_t_o__t_0_s`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows`
),
project_3 AS (
  SELECT `k_k`, `a_count__d` FROM `change`
),
restrict_4 AS (
  SELECT `_t_o_c0`, `_t_o_c1`, `_t_o_c2`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_0_s`, `_t_file`, `_t_pos` FROM stored_2 LEFT SEMI JOIN project_3 ON (`_t_o_c0`) <=> project_3.`k_k` AND (`_t_o_c1`) <=> project_3.`a_count__d`
),
outerjoin_5 AS (
  SELECT `k_k`, `a_count__d`, `_t_count`, `_t_0_n`, `_t_0_s`, `_t_o_c0`, `_t_o_c1`, `_t_o_c2`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_0_s`, `_t_file`, `_t_pos` FROM named_1 LEFT OUTER JOIN restrict_4 ON (`k_k` <=> `_t_o_c0`) AND (`a_count__d` <=> `_t_o_c1`)
),
project_6 AS (
  SELECT `k_k`, `a_count__d`, CAST(coalesce(`_t_o__t_count`, 0) + `_t_count` AS BIGINT) AS `_t_count`, CAST(coalesce(`_t_o__t_0_n`, 0) + `_t_0_n` AS BIGINT) AS `_t_0_n`, CAST(coalesce(`_t_o__t_0_s`, 0) + `_t_0_s` AS BIGINT) AS `_t_0_s`, FALSE AS `_t_again`, `_t_file`, `_t_pos`, `_t_o_c0`, `_t_o_c1`, `_t_o_c2`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_0_s` FROM outerjoin_5
),
project_7 AS (
  SELECT `k_k` AS `k_k__key`, `a_count__d` AS `a_count__d__key`, `_t_file`, `_t_pos`, `_t_again`, `_t_count` > 0 AS `_t_lives`, (`_t_count` < 0) OR ((`_t_file` IS NULL) AND (`_t_count` = 0) AND (((NOT (`_t_count` = 0)) OR (NOT (`_t_0_n` = 0))) OR (NOT (`_t_0_s` = 0)))) AS `_t_lost`, `k_k` AS `_t_n_c0`, `a_count__d` AS `_t_n_c1`, CASE WHEN `_t_0_n` > 0 THEN CAST(`_t_0_s` AS BIGINT) END AS `_t_n_c2`, `_t_count` AS `_t_n__t_count`, `_t_0_n` AS `_t_n__t_0_n`, `_t_0_s` AS `_t_n__t_0_s`, `_t_o_c0`, `_t_o_c1`, `_t_o_c2`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_0_s` FROM project_6
),
project_8 AS (
  SELECT `k_k__key`, `a_count__d__key`, `_t_file`, `_t_pos`, `_t_again`, `_t_lives`, `_t_lost`, `_t_n_c0`, `_t_n_c1`, `_t_n_c2`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_0_s`, `_t_o_c0`, `_t_o_c1`, `_t_o_c2`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_0_s`, (`_t_n_c0` <=> `_t_o_c0`) AND (`_t_n_c1` <=> `_t_o_c1`) AND (`_t_n_c2` <=> `_t_o_c2`) AND (`_t_n__t_count` <=> `_t_o__t_count`) AND (`_t_n__t_0_n` <=> `_t_o__t_0_n`) AND (`_t_n__t_0_s` <=> `_t_o__t_0_s`) AS `_t_same` FROM project_7
)
SELECT `k_k__key`, `a_count__d__key`, `_t_file`, `_t_pos`, `_t_again`, `_t_lost`, `_t_n_c0`, `_t_n_c1`, `_t_n_c2`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_0_s`, `_t_o_c0`, `_t_o_c1`, `_t_o_c2`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_0_s`, (NOT (`_t_file` IS NULL)) AND (NOT (`_t_lives` AND `_t_same`)) AS `_t_leaves`, `_t_lives` AND (NOT ((NOT (`_t_file` IS NULL)) AND `_t_same`)) AS `_t_enters`, (NOT (`_t_file` IS NULL)) AND `_t_lives` AND (NOT `_t_same`) AS `_t_updated` FROM project_8;

-- rows that enter
SELECT `_t_n_c0` AS `c0`, `_t_n_c1` AS `c1`, `_t_n_c2` AS `c2`, `_t_n__t_count` AS `_t_count`, `_t_n__t_0_n` AS `_t_0_n`, `_t_n__t_0_s` AS `_t_0_s` FROM `merged` WHERE `_t_enters`;

-- positions of rows that leave
SELECT `_t_file`, `_t_pos` FROM `merged` WHERE `_t_leaves`;

-- change
WITH changes_1 AS (
  SELECT `c0` AS `k_k`, `c1` AS `a_count__d`, `c2` AS `a_sum__p`, `_t_w` FROM `changes of _trickle.s__distinct_calls__state1`
)
SELECT `k_k`, coalesce(sum(`_t_w`), 0) AS `_t_count`, coalesce(sum(CASE WHEN isnotnull(`a_count__d`) THEN 1 END * `_t_w`), 0) AS `_t_0_n`, coalesce(sum(CASE WHEN isnotnull(`a_sum__p`) THEN 1 END * `_t_w`), 0) AS `_t_1_n`, CAST(coalesce(sum(CAST(`a_sum__p` AS DECIMAL(20, 0)) * CAST(`_t_w` AS DECIMAL(10, 0))), 0) AS DECIMAL(38, 0)) AS `_t_1_s` FROM changes_1 GROUP BY 1;

-- merged
WITH named_1 AS (
  SELECT `k_k`, `_t_count`, `_t_0_n`, `_t_1_n`, `_t_1_s` FROM `change`
),
stored_2 AS (
  SELECT `k` AS `_t_o_k`, `n` AS `_t_o_n`, `total` AS `_t_o_total`, `_t_count` AS `_t_o__t_count`, `_t_0_n` AS `_t_o__t_0_n`, `_t_1_n` AS `_t_o__t_1_n`, `_t_1_s` AS `_t_o__t_1_s`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows`
),
project_3 AS (
  SELECT `k_k` FROM `change`
),
restrict_4 AS (
  SELECT `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_file`, `_t_pos` FROM stored_2 LEFT SEMI JOIN project_3 ON (`_t_o_k`) <=> project_3.`k_k`
),
outerjoin_5 AS (
  SELECT `k_k`, `_t_count`, `_t_0_n`, `_t_1_n`, `_t_1_s`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, `_t_file`, `_t_pos` FROM named_1 LEFT OUTER JOIN restrict_4 ON (`k_k` <=> `_t_o_k`)
),
project_6 AS (
  SELECT `k_k`, CAST(coalesce(`_t_o__t_count`, 0) + `_t_count` AS BIGINT) AS `_t_count`, CAST(coalesce(`_t_o__t_0_n`, 0) + `_t_0_n` AS BIGINT) AS `_t_0_n`, CAST(coalesce(`_t_o__t_1_n`, 0) + `_t_1_n` AS BIGINT) AS `_t_1_n`, CAST(coalesce(`_t_o__t_1_s`, 0) + `_t_1_s` AS BIGINT) AS `_t_1_s`, FALSE AS `_t_again`, `_t_file`, `_t_pos`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s` FROM outerjoin_5
),
project_7 AS (
  SELECT `k_k` AS `k_k__key`, `_t_file`, `_t_pos`, `_t_again`, `_t_count` > 0 AS `_t_lives`, (`_t_count` < 0) OR ((`_t_file` IS NULL) AND (`_t_count` = 0) AND ((((NOT (`_t_count` = 0)) OR (NOT (`_t_0_n` = 0))) OR (NOT (`_t_1_n` = 0))) OR (NOT (`_t_1_s` = 0)))) AS `_t_lost`, `k_k` AS `_t_n_k`, `_t_0_n` AS `_t_n_n`, CAST(CASE WHEN `_t_1_n` > 0 THEN CAST(`_t_1_s` AS BIGINT) END AS BIGINT) AS `_t_n_total`, `_t_count` AS `_t_n__t_count`, `_t_0_n` AS `_t_n__t_0_n`, `_t_1_n` AS `_t_n__t_1_n`, `_t_1_s` AS `_t_n__t_1_s`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s` FROM project_6
),
project_8 AS (
  SELECT `k_k__key`, `_t_file`, `_t_pos`, `_t_again`, `_t_lives`, `_t_lost`, `_t_n_k`, `_t_n_n`, `_t_n_total`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_n`, `_t_n__t_1_s`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, (`_t_n_k` <=> `_t_o_k`) AND (`_t_n_n` <=> `_t_o_n`) AND (`_t_n_total` <=> `_t_o_total`) AND (`_t_n__t_count` <=> `_t_o__t_count`) AND (`_t_n__t_0_n` <=> `_t_o__t_0_n`) AND (`_t_n__t_1_n` <=> `_t_o__t_1_n`) AND (`_t_n__t_1_s` <=> `_t_o__t_1_s`) AS `_t_same` FROM project_7
)
SELECT `k_k__key`, `_t_file`, `_t_pos`, `_t_again`, `_t_lost`, `_t_n_k`, `_t_n_n`, `_t_n_total`, `_t_n__t_count`, `_t_n__t_0_n`, `_t_n__t_1_n`, `_t_n__t_1_s`, `_t_o_k`, `_t_o_n`, `_t_o_total`, `_t_o__t_count`, `_t_o__t_0_n`, `_t_o__t_1_n`, `_t_o__t_1_s`, (NOT (`_t_file` IS NULL)) AND (NOT (`_t_lives` AND `_t_same`)) AS `_t_leaves`, `_t_lives` AND (NOT ((NOT (`_t_file` IS NULL)) AND `_t_same`)) AS `_t_enters`, (NOT (`_t_file` IS NULL)) AND `_t_lives` AND (NOT `_t_same`) AS `_t_updated` FROM project_8;

-- rows that enter
SELECT `_t_n_k` AS `k`, `_t_n_n` AS `n`, `_t_n_total` AS `total`, `_t_n__t_count` AS `_t_count`, `_t_n__t_0_n` AS `_t_0_n`, `_t_n__t_1_n` AS `_t_1_n`, `_t_n__t_1_s` AS `_t_1_s` FROM `merged` WHERE `_t_enters`;

-- positions of rows that leave
SELECT `_t_file`, `_t_pos` FROM `merged` WHERE `_t_leaves`
