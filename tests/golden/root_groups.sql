-- At the root, groups that HAVING may hide: the affected ones are computed anew
-- query
SELECT a.k, avg(b.w) AS mean, count(DISTINCT b.w) AS kinds FROM a JOIN b ON a.id = b.a_id GROUP BY a.k HAVING count(*) > 1
-- delta
-- changes of s.a
CREATE OR REPLACE TEMPORARY VIEW `changes of s.a` AS
WITH asof_1 AS (
  SELECT `id` AS `id`, `k` AS `k` FROM `s`.`a`
),
asof_2 AS (
  SELECT `id` AS `id`, `k` AS `k` FROM `s`.`a` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `id`, `k`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `id`, `k`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `id`, `k`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2
)
SELECT `id`, `k`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

-- changes of s.b
CREATE OR REPLACE TEMPORARY VIEW `changes of s.b` AS
WITH asof_1 AS (
  SELECT `a_id` AS `a_id`, `w` AS `w` FROM `s`.`b`
),
asof_2 AS (
  SELECT `a_id` AS `a_id`, `w` AS `w` FROM `s`.`b` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `a_id`, `w`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `a_id`, `w`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `a_id`, `w`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2
)
SELECT `a_id`, `w`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

-- stored rows of s.root_groups
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.root_groups` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k` FROM `s`.`a` VERSION AS OF 1
),
asof_2 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
join_3 AS (
  SELECT `a_id`, `a_k`, `b_a_id`, `b_w` FROM asof_1
  JOIN asof_2 ON (`a_id` = `b_a_id`)
),
aggregate_4 AS (
  SELECT `a_k` AS `k_k`, avg(`b_w`) AS `a_avg`, count(DISTINCT `b_w`) AS `a_count`, count(*) AS `a_count_2` FROM join_3 GROUP BY 1
),
project_5 AS (
  SELECT `k_k` AS `k`, `a_avg` AS `mean`, `a_count` AS `kinds` FROM aggregate_4 WHERE (`a_count_2` > 1)
)
SELECT `k`, `mean`, `kinds`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_5;

-- affected
CREATE OR REPLACE TEMPORARY VIEW `affected` AS
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `_t_w` FROM `changes of s.a`
),
asof_2 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_3 AS (
  SELECT `a_id`, `a_k`, `_t_w`, `b_a_id`, `b_w` FROM changes_1
  JOIN asof_2 ON (`a_id` = `b_a_id`)
),
project_4 AS (
  SELECT `a_id`, `a_k`, `b_a_id`, `b_w`, `_t_w` FROM join_3
),
changes_5 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
asof_6 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k` FROM `s`.`a` VERSION AS OF 1
),
join_7 AS (
  SELECT `b_a_id`, `b_w`, `_t_w`, `a_id`, `a_k` FROM changes_5
  JOIN asof_6 ON (`a_id` = `b_a_id`)
),
project_8 AS (
  SELECT `a_id`, `a_k`, `b_a_id`, `b_w`, `_t_w` FROM join_7
),
unionall_9 AS (
  SELECT `a_id`, `a_k`, `b_a_id`, `b_w`, `_t_w` FROM project_4
  UNION ALL SELECT `a_id`, `a_k`, `b_a_id`, `b_w`, `_t_w` FROM project_8
),
project_10 AS (
  SELECT `a_k` AS `k_k__key` FROM unionall_9
)
SELECT DISTINCT `k_k__key` FROM project_10;

-- merged (where most groups are affected, all are computed)
CREATE OR REPLACE TEMPORARY VIEW `merged` AS
WITH named_1 AS (
  SELECT `k_k__key` FROM `affected`
),
asof_2 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k` FROM `s`.`a`
),
restrict_3 AS (
  SELECT `a_id`, `a_k` FROM asof_2 LEFT SEMI JOIN named_1 ON (`a_k`) <=> named_1.`k_k__key`
),
asof_4 AS (
  SELECT `a_id` AS `b_a_id`, `w` AS `b_w` FROM `s`.`b`
),
join_5 AS (
  SELECT `a_id`, `a_k`, `b_a_id`, `b_w` FROM restrict_3
  JOIN asof_4 ON (`a_id` = `b_a_id`)
),
project_6 AS (
  SELECT `a_id`, `a_k`, `b_a_id`, `b_w` FROM join_5
),
aggregate_7 AS (
  SELECT `a_k` AS `k_k`, avg(`b_w`) AS `a_avg`, count(DISTINCT `b_w`) AS `a_count`, count(*) AS `a_count_2` FROM project_6 GROUP BY 1
),
filter_8 AS (
  SELECT `k_k`, `a_avg`, `a_count`, `a_count_2` FROM aggregate_7 WHERE (`a_count_2` > 1)
),
project_9 AS (
  SELECT `k_k` AS `k`, `a_avg` AS `mean`, `a_count` AS `kinds` FROM filter_8
),
project_10 AS (
  SELECT `k` AS `_t_n_k`, `mean` AS `_t_n_mean`, `kinds` AS `_t_n_kinds`, TRUE AS `_t_fresh` FROM project_9
),
outerjoin_11 AS (
  SELECT `k_k__key`, `_t_n_k`, `_t_n_mean`, `_t_n_kinds`, `_t_fresh` FROM named_1 LEFT OUTER JOIN project_10 ON (`k_k__key` <=> `_t_n_k`)
),
stored_12 AS (
  SELECT `k` AS `_t_o_k`, `mean` AS `_t_o_mean`, `kinds` AS `_t_o_kinds`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.root_groups`
),
restrict_13 AS (
  SELECT `_t_o_k`, `_t_o_mean`, `_t_o_kinds`, `_t_file`, `_t_pos` FROM stored_12 LEFT SEMI JOIN named_1 ON (`_t_o_k`) <=> named_1.`k_k__key`
),
outerjoin_14 AS (
  SELECT `k_k__key`, `_t_n_k`, `_t_n_mean`, `_t_n_kinds`, `_t_fresh`, `_t_o_k`, `_t_o_mean`, `_t_o_kinds`, `_t_file`, `_t_pos` FROM outerjoin_11 LEFT OUTER JOIN restrict_13 ON (`k_k__key` <=> `_t_o_k`)
),
project_15 AS (
  SELECT `_t_file`, `_t_pos`, coalesce(`_t_fresh`, FALSE) AS `_t_lives`, FALSE AS `_t_lost`, `_t_n_k`, `_t_n_mean`, `_t_n_kinds`, `_t_o_k`, `_t_o_mean`, `_t_o_kinds` FROM outerjoin_14
),
project_16 AS (
  SELECT `_t_file`, `_t_pos`, `_t_lives`, `_t_lost`, `_t_n_k`, `_t_n_mean`, `_t_n_kinds`, `_t_o_k`, `_t_o_mean`, `_t_o_kinds`, (`_t_n_k` <=> `_t_o_k`) AND (named_struct('v', `_t_n_mean`, 'zero', CASE WHEN `_t_n_mean` = 0 THEN CAST(`_t_n_mean` AS STRING) END) <=> named_struct('v', `_t_o_mean`, 'zero', CASE WHEN `_t_o_mean` = 0 THEN CAST(`_t_o_mean` AS STRING) END)) AND (`_t_n_kinds` <=> `_t_o_kinds`) AS `_t_same` FROM project_15
)
SELECT `_t_file`, `_t_pos`, `_t_lost`, `_t_n_k`, `_t_n_mean`, `_t_n_kinds`, `_t_o_k`, `_t_o_mean`, `_t_o_kinds`, (NOT (`_t_file` IS NULL)) AND (NOT (`_t_lives` AND `_t_same`)) AS `_t_leaves`, `_t_lives` AND (NOT ((NOT (`_t_file` IS NULL)) AND `_t_same`)) AS `_t_enters`, (NOT (`_t_file` IS NULL)) AND `_t_lives` AND (NOT `_t_same`) AS `_t_updated` FROM project_16;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.root_groups` AS
WITH project_1 AS (
  SELECT `_t_n_k` AS `k`, `_t_n_mean` AS `mean`, `_t_n_kinds` AS `kinds` FROM `merged` WHERE `_t_enters`
),
project_2 AS (
  SELECT `_t_o_k` AS `k`, `_t_o_mean` AS `mean`, `_t_o_kinds` AS `kinds` FROM `merged` WHERE `_t_leaves`
)
SELECT `k`, `mean`, `kinds`, 1L AS `_t_w` FROM project_1
  UNION ALL SELECT `k`, `mean`, `kinds`, -1L AS `_t_w` FROM project_2
