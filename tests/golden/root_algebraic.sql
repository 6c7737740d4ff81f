-- At the root, states that the delta is added to: no input is read
-- query
SELECT k, count(*) AS n, sum(v) AS total, max(v) AS top, bool_or(v > 3) AS any_big FROM a GROUP BY k
-- delta
WITH changes_1 AS (
  SELECT `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
aggregate_2 AS (
  SELECT `a_k` AS `k_k`, `a_v` AS `_t_2_x_value`, coalesce(sum(`_t_w`), 0) AS `_t_count`, coalesce(sum(CASE WHEN isnotnull(1) THEN 1 END * `_t_w`), 0) AS `_t_0_n`, coalesce(sum(CASE WHEN isnotnull(`a_v`) THEN 1 END * `_t_w`), 0) AS `_t_1_n`, CAST(coalesce(sum(CAST(`a_v` AS BIGINT) * `_t_w`), 0) AS BIGINT) AS `_t_1_s`, coalesce(sum(CASE WHEN `a_v` > 3 THEN 1 END * `_t_w`), 0) AS `_t_3_t`, coalesce(sum(CASE WHEN not(`a_v` > 3) THEN 1 END * `_t_w`), 0) AS `_t_3_f`, sum(`_t_w`) AS `_t_w` FROM changes_1 GROUP BY 1, 2
),
aggregate_3 AS (
  SELECT `k_k`, CAST(coalesce(sum(`_t_count`), 0) AS BIGINT) AS `_t_count`, CAST(coalesce(sum(`_t_0_n`), 0) AS BIGINT) AS `_t_0_n`, CAST(coalesce(sum(`_t_1_n`), 0) AS BIGINT) AS `_t_1_n`, CAST(coalesce(sum(`_t_1_s`), 0) AS BIGINT) AS `_t_1_s`, CAST(coalesce(sum(`_t_3_t`), 0) AS BIGINT) AS `_t_3_t`, CAST(coalesce(sum(`_t_3_f`), 0) AS BIGINT) AS `_t_3_f`, max(CASE WHEN `_t_w` > 0 THEN `_t_2_x_value` END) AS `_t_2_x`, max(CASE WHEN `_t_w` < 0 THEN `_t_2_x_value` END) AS `_t_2_x_removed` FROM aggregate_2 GROUP BY 1
)
SELECT `k_k`, `_t_count`, `_t_0_n`, `_t_1_n`, `_t_1_s`, `_t_3_t`, `_t_3_f`, `_t_2_x`, `_t_2_x_removed` FROM aggregate_3
