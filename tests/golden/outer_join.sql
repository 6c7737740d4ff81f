-- Every row of the left side stays; both sides and the condition's form are free, here a full join with a range
-- query
SELECT a.id, a.v, b.w, b.k AS bk
FROM a FULL JOIN b ON a.k = b.k AND a.v < b.w
-- delta
-- changes of s.a
CREATE OR REPLACE TEMPORARY VIEW `changes of s.a` AS
WITH asof_1 AS (
  SELECT `id` AS `id`, `k` AS `k`, `v` AS `v` FROM `s`.`a`
),
asof_2 AS (
  SELECT `id` AS `id`, `k` AS `k`, `v` AS `v` FROM `s`.`a` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `id`, `k`, `v`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `id`, `k`, `v`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `id`, `k`, `v`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2, 3
)
SELECT `id`, `k`, `v`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

-- changes of s.b
CREATE OR REPLACE TEMPORARY VIEW `changes of s.b` AS
WITH asof_1 AS (
  SELECT `k` AS `k`, `w` AS `w` FROM `s`.`b`
),
asof_2 AS (
  SELECT `k` AS `k`, `w` AS `w` FROM `s`.`b` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `k`, `w`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `k`, `w`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `k`, `w`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2
)
SELECT `k`, `w`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

-- stored rows of s.outer_join
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.outer_join` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
asof_2 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
outerjoin_3 AS (
  SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w` FROM asof_1 FULL OUTER JOIN asof_2 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
project_4 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v`, `b_w` AS `w`, `b_k` AS `bk` FROM outerjoin_3
),
project_5 AS (
  SELECT `id`, `v`, `w`, `bk` FROM project_4
),
project_6 AS (
  SELECT `id`, `v`, `w`, `bk`, xxhash64(`id`, `v`, `w`, `bk`) AS `_t_hash` FROM project_5
)
SELECT `id`, `v`, `w`, `bk`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_6;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
asof_2 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b`
),
project_3 AS (
  SELECT `a_k` AS `partner_0` FROM changes_1
),
distinct_4 AS (
  SELECT DISTINCT `partner_0` FROM project_3
),
restrict_5 AS (
  SELECT `b_k`, `b_w` FROM asof_2 LEFT SEMI JOIN distinct_4 ON (`b_k`) <=> distinct_4.`partner_0`
),
outerjoin_6 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w`, `b_k`, `b_w` FROM changes_1 LEFT OUTER JOIN restrict_5 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
project_7 AS (
  SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM outerjoin_6
),
changes_8 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
asof_9 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
join_10 AS (
  SELECT `b_k`, `b_w`, `_t_w`, `a_id`, `a_k`, `a_v` FROM changes_8
  JOIN asof_9 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
project_11 AS (
  SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM join_10
),
project_12 AS (
  SELECT `b_k` AS `partner_0` FROM changes_8
),
distinct_13 AS (
  SELECT DISTINCT `partner_0` FROM project_12
),
restrict_14 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_9 LEFT SEMI JOIN distinct_13 ON (`a_k`) <=> distinct_13.`partner_0`
),
matched_15 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM restrict_14 LEFT SEMI JOIN changes_8 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
project_16 AS (
  SELECT `a_k` AS `partner_0` FROM matched_15
),
distinct_17 AS (
  SELECT DISTINCT `partner_0` FROM project_16
),
restrict_18 AS (
  SELECT `b_k`, `b_w` FROM asof_2 LEFT SEMI JOIN distinct_17 ON (`b_k`) <=> distinct_17.`partner_0`
),
matched_19 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_15 LEFT ANTI JOIN restrict_18 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
weigh_20 AS (
  SELECT `a_id`, `a_k`, `a_v`, 1L AS `_t_w` FROM matched_19
),
project_21 AS (
  SELECT `a_id`, `a_k`, `a_v`, NULL AS `b_k`, NULL AS `b_w`, `_t_w` FROM weigh_20
),
asof_22 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
restrict_23 AS (
  SELECT `b_k`, `b_w` FROM asof_22 LEFT SEMI JOIN distinct_17 ON (`b_k`) <=> distinct_17.`partner_0`
),
matched_24 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_15 LEFT ANTI JOIN restrict_23 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
weigh_25 AS (
  SELECT `a_id`, `a_k`, `a_v`, -1L AS `_t_w` FROM matched_24
),
project_26 AS (
  SELECT `a_id`, `a_k`, `a_v`, NULL AS `b_k`, NULL AS `b_w`, `_t_w` FROM weigh_25
),
restrict_27 AS (
  SELECT `b_k`, `b_w` FROM asof_22 LEFT SEMI JOIN distinct_4 ON (`b_k`) <=> distinct_4.`partner_0`
),
matched_28 AS (
  SELECT `b_k`, `b_w` FROM restrict_27 LEFT SEMI JOIN changes_1 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
weigh_29 AS (
  SELECT `b_k`, `b_w`, 1L AS `_t_w` FROM matched_28
),
unionall_30 AS (
  SELECT `b_k`, `b_w`, `_t_w` FROM changes_8
  UNION ALL SELECT `b_k`, `b_w`, `_t_w` FROM weigh_29
),
asof_31 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a`
),
project_32 AS (
  SELECT `b_k` AS `partner_0` FROM unionall_30
),
distinct_33 AS (
  SELECT DISTINCT `partner_0` FROM project_32
),
restrict_34 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_31 LEFT SEMI JOIN distinct_33 ON (`a_k`) <=> distinct_33.`partner_0`
),
matched_35 AS (
  SELECT `b_k`, `b_w`, `_t_w` FROM unionall_30 LEFT ANTI JOIN restrict_34 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
project_36 AS (
  SELECT `b_k` AS `partner_0` FROM matched_28
),
distinct_37 AS (
  SELECT DISTINCT `partner_0` FROM project_36
),
restrict_38 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_9 LEFT SEMI JOIN distinct_37 ON (`a_k`) <=> distinct_37.`partner_0`
),
matched_39 AS (
  SELECT `b_k`, `b_w` FROM matched_28 LEFT ANTI JOIN restrict_38 ON (`a_k` = `b_k`) AND (`a_v` < `b_w`)
),
weigh_40 AS (
  SELECT `b_k`, `b_w`, -1L AS `_t_w` FROM matched_39
),
unionall_41 AS (
  SELECT `b_k`, `b_w`, `_t_w` FROM matched_35
  UNION ALL SELECT `b_k`, `b_w`, `_t_w` FROM weigh_40
),
project_42 AS (
  SELECT NULL AS `a_id`, NULL AS `a_k`, NULL AS `a_v`, `b_k`, `b_w`, `_t_w` FROM unionall_41
),
unionall_43 AS (
  SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM project_7
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM project_11
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM project_21
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM project_26
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `b_k`, `b_w`, `_t_w` FROM project_42
),
project_44 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v`, `b_w` AS `w`, `b_k` AS `bk`, `_t_w` FROM unionall_43
),
project_45 AS (
  SELECT `id`, `v`, `w`, `bk`, `_t_w` FROM project_44
),
aggregate_46 AS (
  SELECT `id`, `v`, `w`, `bk`, sum(`_t_w`) AS `_t_w` FROM project_45 GROUP BY 1, 2, 3, 4
),
filter_47 AS (
  SELECT `id`, `v`, `w`, `bk`, `_t_w` FROM aggregate_46 WHERE NOT (`_t_w` = 0)
)
SELECT `id`, `v`, `w`, `bk`, xxhash64(`id`, `v`, `w`, `bk`) AS `_t_hash`, `_t_w` FROM filter_47;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `id`, `v`, `w`, `bk`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `v` AS `_t_o_v`, `w` AS `_t_o_w`, `bk` AS `_t_o_bk`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.outer_join`
),
join_3 AS (
  SELECT `id`, `v`, `w`, `bk`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o_w`, `_t_o_bk`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (`_t_o_v` <=> `v`) AND (`_t_o_w` <=> `w`) AND (`_t_o_bk` <=> `bk`)
),
window_4 AS (
  SELECT `id`, `v`, `w`, `bk`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o_w`, `_t_o_bk`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, `v`, `w`, `bk` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `v`, `w`, `bk`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o_w`, `_t_o_bk`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.outer_join` AS
WITH filter_1 AS (
  SELECT `id`, `v`, `w`, `bk`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `v`, `w`, `bk`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `id`, `v`, `w`, `bk`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `id`, `v`, `w`, `bk`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
)
SELECT `id`, `v`, `w`, `bk`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `id`, `v`, `w`, `bk`, `_t_hash`, `_t_w` FROM filter_4
