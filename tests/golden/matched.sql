-- EXISTS, a NOT IN and an IN under OR: semi, anti and existence joins
-- query
SELECT id, v FROM a
WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.w > a.v) AND id NOT IN (SELECT a_id FROM b WHERE a_id < 9 AND w = 1)
AND (v = 3 OR k IN (SELECT k FROM b WHERE w > 4))
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
  SELECT `k` AS `k`, `w` AS `w`, `a_id` AS `a_id` FROM `s`.`b`
),
asof_2 AS (
  SELECT `k` AS `k`, `w` AS `w`, `a_id` AS `a_id` FROM `s`.`b` VERSION AS OF 1
),
unionall_3 AS (
  SELECT `k`, `w`, `a_id`, 1L AS `_t_w` FROM asof_1
  UNION ALL SELECT `k`, `w`, `a_id`, -1L AS `_t_w` FROM asof_2
),
aggregate_4 AS (
  SELECT `k`, `w`, `a_id`, sum(`_t_w`) AS `_t_w` FROM unionall_3 GROUP BY 1, 2, 3
)
SELECT `k`, `w`, `a_id`, `_t_w` FROM aggregate_4 WHERE NOT (`_t_w` = 0);

-- stored rows of s.matched
CREATE OR REPLACE TEMPORARY VIEW `stored rows of s.matched` AS
WITH asof_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
asof_2 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
project_3 AS (
  SELECT `b_k`, `b_w` FROM asof_2
),
project_4 AS (
  SELECT `b_k`, `b_w` FROM project_3
),
matched_5 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_1 LEFT SEMI JOIN project_4 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
asof_6 AS (
  SELECT `a_id` AS `b_a_id_2`, `w` AS `b_w_2` FROM `s`.`b` VERSION AS OF 1
),
project_7 AS (
  SELECT `b_a_id_2` AS `a_id_2` FROM asof_6 WHERE `b_a_id_2` < 9 AND `b_w_2` = 1
),
project_8 AS (
  SELECT `a_id_2` FROM project_7
),
matched_9 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_5 LEFT ANTI JOIN project_8 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
asof_10 AS (
  SELECT `k` AS `b_k_3`, `w` AS `b_w_3` FROM `s`.`b` VERSION AS OF 1
),
project_11 AS (
  SELECT `b_k_3` AS `k` FROM asof_10 WHERE `b_w_3` > 4
),
project_12 AS (
  SELECT `k` FROM project_11
),
matched_13 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_9 LEFT SEMI JOIN project_12 ON (`a_k` = `k`)
),
matched_14 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_9 LEFT ANTI JOIN project_12 ON (`a_k` = `k`)
),
matched_15 AS (
  SELECT `a_id`, `a_k`, `a_v`, true AS `in_q` FROM matched_13
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, false AS `in_q` FROM matched_14
),
project_16 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v` FROM matched_15 WHERE `a_v` = 3 OR `in_q`
),
project_17 AS (
  SELECT `id`, `v` FROM project_16
),
project_18 AS (
  SELECT `id`, `v`, xxhash64(`id`, `v`) AS `_t_hash` FROM project_17
)
SELECT `id`, `v`, `_t_hash`, 'storage' AS `_file`, monotonically_increasing_id() AS `_pos` FROM project_18;

-- delta
CREATE OR REPLACE TEMPORARY VIEW `delta` AS
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
asof_2 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` VERSION AS OF 1
),
changes_3 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w`, `_t_w` FROM `changes of s.b`
),
project_4 AS (
  SELECT `b_k`, `b_w`, `_t_w` FROM changes_3
),
project_5 AS (
  SELECT `b_k`, `b_w`, `_t_w` FROM project_4
),
project_6 AS (
  SELECT `b_k` AS `partner_0` FROM project_5
),
distinct_7 AS (
  SELECT DISTINCT `partner_0` FROM project_6
),
restrict_8 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_2 LEFT SEMI JOIN distinct_7 ON (`a_k`) <=> distinct_7.`partner_0`
),
matched_9 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM restrict_8 LEFT SEMI JOIN project_5 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
weigh_10 AS (
  SELECT `a_id`, `a_k`, `a_v`, 1L AS `_t_w` FROM matched_9
),
unionall_11 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM changes_1
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM weigh_10
),
asof_12 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b`
),
project_13 AS (
  SELECT `a_k` AS `partner_0` FROM unionall_11
),
distinct_14 AS (
  SELECT DISTINCT `partner_0` FROM project_13
),
restrict_15 AS (
  SELECT `b_k`, `b_w` FROM asof_12 LEFT SEMI JOIN distinct_14 ON (`b_k`) <=> distinct_14.`partner_0`
),
project_16 AS (
  SELECT `b_k`, `b_w` FROM restrict_15
),
project_17 AS (
  SELECT `b_k`, `b_w` FROM project_16
),
matched_18 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM unionall_11 LEFT SEMI JOIN project_17 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
asof_19 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b` VERSION AS OF 1
),
project_20 AS (
  SELECT `a_k` AS `partner_0` FROM matched_9
),
distinct_21 AS (
  SELECT DISTINCT `partner_0` FROM project_20
),
restrict_22 AS (
  SELECT `b_k`, `b_w` FROM asof_19 LEFT SEMI JOIN distinct_21 ON (`b_k`) <=> distinct_21.`partner_0`
),
project_23 AS (
  SELECT `b_k`, `b_w` FROM restrict_22
),
project_24 AS (
  SELECT `b_k`, `b_w` FROM project_23
),
matched_25 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_9 LEFT SEMI JOIN project_24 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
weigh_26 AS (
  SELECT `a_id`, `a_k`, `a_v`, -1L AS `_t_w` FROM matched_25
),
unionall_27 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM matched_18
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM weigh_26
),
project_28 AS (
  SELECT `b_k`, `b_w` FROM asof_19
),
project_29 AS (
  SELECT `b_k`, `b_w` FROM project_28
),
matched_30 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_2 LEFT SEMI JOIN project_29 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
changes_31 AS (
  SELECT `a_id` AS `b_a_id_2`, `w` AS `b_w_2`, `_t_w` FROM `changes of s.b`
),
filter_32 AS (
  SELECT `b_a_id_2`, `b_w_2`, `_t_w` FROM changes_31 WHERE `b_a_id_2` < 9 AND `b_w_2` = 1
),
project_33 AS (
  SELECT `b_a_id_2` AS `a_id_2`, `_t_w` FROM filter_32
),
project_34 AS (
  SELECT `a_id_2`, `_t_w` FROM project_33
),
matched_35 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_30 LEFT SEMI JOIN project_34 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
weigh_36 AS (
  SELECT `a_id`, `a_k`, `a_v`, 1L AS `_t_w` FROM matched_35
),
unionall_37 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM unionall_27
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM weigh_36
),
asof_38 AS (
  SELECT `a_id` AS `b_a_id_2`, `w` AS `b_w_2` FROM `s`.`b`
),
project_39 AS (
  SELECT `b_a_id_2` AS `a_id_2` FROM asof_38 WHERE `b_a_id_2` < 9 AND `b_w_2` = 1
),
project_40 AS (
  SELECT `a_id_2` FROM project_39
),
matched_41 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM unionall_37 LEFT ANTI JOIN project_40 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
asof_42 AS (
  SELECT `a_id` AS `b_a_id_2`, `w` AS `b_w_2` FROM `s`.`b` VERSION AS OF 1
),
project_43 AS (
  SELECT `b_a_id_2` AS `a_id_2` FROM asof_42 WHERE `b_a_id_2` < 9 AND `b_w_2` = 1
),
project_44 AS (
  SELECT `a_id_2` FROM project_43
),
matched_45 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_35 LEFT ANTI JOIN project_44 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
weigh_46 AS (
  SELECT `a_id`, `a_k`, `a_v`, -1L AS `_t_w` FROM matched_45
),
unionall_47 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM matched_41
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM weigh_46
),
changes_48 AS (
  SELECT `k` AS `b_k_3`, `w` AS `b_w_3`, `_t_w` FROM `changes of s.b`
),
filter_49 AS (
  SELECT `b_k_3`, `b_w_3`, `_t_w` FROM changes_48 WHERE `b_w_3` > 4
),
project_50 AS (
  SELECT `b_k_3` AS `k`, `_t_w` FROM filter_49
),
project_51 AS (
  SELECT `k`, `_t_w` FROM project_50
),
project_52 AS (
  SELECT `k` AS `partner_0` FROM project_51
),
distinct_53 AS (
  SELECT DISTINCT `partner_0` FROM project_52
),
restrict_54 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_2 LEFT SEMI JOIN distinct_53 ON (`a_k`) <=> distinct_53.`partner_0`
),
project_55 AS (
  SELECT `a_k` AS `partner_0` FROM restrict_54
),
distinct_56 AS (
  SELECT DISTINCT `partner_0` FROM project_55
),
restrict_57 AS (
  SELECT `b_k`, `b_w` FROM asof_19 LEFT SEMI JOIN distinct_56 ON (`b_k`) <=> distinct_56.`partner_0`
),
project_58 AS (
  SELECT `b_k`, `b_w` FROM restrict_57
),
project_59 AS (
  SELECT `b_k`, `b_w` FROM project_58
),
matched_60 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM restrict_54 LEFT SEMI JOIN project_59 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
matched_61 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_60 LEFT ANTI JOIN project_44 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
matched_62 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_61 LEFT SEMI JOIN project_51 ON (`a_k` = `k`)
),
weigh_63 AS (
  SELECT `a_id`, `a_k`, `a_v`, 1L AS `_t_w` FROM matched_62
),
unionall_64 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM unionall_47
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM weigh_63
),
asof_65 AS (
  SELECT `k` AS `b_k_3`, `w` AS `b_w_3` FROM `s`.`b`
),
project_66 AS (
  SELECT `a_k` AS `partner_0` FROM unionall_64
),
distinct_67 AS (
  SELECT DISTINCT `partner_0` FROM project_66
),
restrict_68 AS (
  SELECT `b_k_3`, `b_w_3` FROM asof_65 LEFT SEMI JOIN distinct_67 ON (`b_k_3`) <=> distinct_67.`partner_0`
),
filter_69 AS (
  SELECT `b_k_3`, `b_w_3` FROM restrict_68 WHERE `b_w_3` > 4
),
project_70 AS (
  SELECT `b_k_3` AS `k` FROM filter_69
),
project_71 AS (
  SELECT `k` FROM project_70
),
matched_72 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM unionall_64 LEFT SEMI JOIN project_71 ON (`a_k` = `k`)
),
matched_73 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM unionall_64 LEFT ANTI JOIN project_71 ON (`a_k` = `k`)
),
matched_74 AS (
  SELECT `a_id`, `a_k`, `a_v`, true AS `in_q`, `_t_w` FROM matched_72
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, false AS `in_q`, `_t_w` FROM matched_73
),
asof_75 AS (
  SELECT `k` AS `b_k_3`, `w` AS `b_w_3` FROM `s`.`b` VERSION AS OF 1
),
project_76 AS (
  SELECT `a_k` AS `partner_0` FROM matched_62
),
distinct_77 AS (
  SELECT DISTINCT `partner_0` FROM project_76
),
restrict_78 AS (
  SELECT `b_k_3`, `b_w_3` FROM asof_75 LEFT SEMI JOIN distinct_77 ON (`b_k_3`) <=> distinct_77.`partner_0`
),
filter_79 AS (
  SELECT `b_k_3`, `b_w_3` FROM restrict_78 WHERE `b_w_3` > 4
),
project_80 AS (
  SELECT `b_k_3` AS `k` FROM filter_79
),
project_81 AS (
  SELECT `k` FROM project_80
),
matched_82 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_62 LEFT SEMI JOIN project_81 ON (`a_k` = `k`)
),
matched_83 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_62 LEFT ANTI JOIN project_81 ON (`a_k` = `k`)
),
matched_84 AS (
  SELECT `a_id`, `a_k`, `a_v`, true AS `in_q` FROM matched_82
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, false AS `in_q` FROM matched_83
),
weigh_85 AS (
  SELECT `a_id`, `a_k`, `a_v`, `in_q`, -1L AS `_t_w` FROM matched_84
),
unionall_86 AS (
  SELECT `a_id`, `a_k`, `a_v`, `in_q`, `_t_w` FROM matched_74
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `in_q`, `_t_w` FROM weigh_85
),
filter_87 AS (
  SELECT `a_id`, `a_k`, `a_v`, `in_q`, `_t_w` FROM unionall_86 WHERE `a_v` = 3 OR `in_q`
),
project_88 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v`, `_t_w` FROM filter_87
),
project_89 AS (
  SELECT `id`, `v`, `_t_w` FROM project_88
),
aggregate_90 AS (
  SELECT `id`, `v`, sum(`_t_w`) AS `_t_w` FROM project_89 GROUP BY 1, 2
),
filter_91 AS (
  SELECT `id`, `v`, `_t_w` FROM aggregate_90 WHERE NOT (`_t_w` = 0)
)
SELECT `id`, `v`, xxhash64(`id`, `v`) AS `_t_hash`, `_t_w` FROM filter_91;

-- leaving, if rows leave
CREATE OR REPLACE TEMPORARY VIEW `leaving` AS
WITH filter_1 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
),
stored_2 AS (
  SELECT `id` AS `_t_o_id`, `v` AS `_t_o_v`, `_t_hash` AS `_t_o__t_hash`, _file AS `_t_file`, _pos AS `_t_pos` FROM `stored rows of s.matched`
),
join_3 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos` FROM filter_1
  JOIN stored_2 ON (`_t_o__t_hash` = `_t_hash`) AND (`_t_o_id` <=> `id`) AND (`_t_o_v` <=> `v`)
),
window_4 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos`, row_number() OVER (PARTITION BY `_t_hash`, `id`, `v` ORDER BY `_t_file`, `_t_pos`) AS `_t_rn` FROM join_3
),
filter_5 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w`, `_t_o_id`, `_t_o_v`, `_t_o__t_hash`, `_t_file`, `_t_pos`, `_t_rn` FROM window_4 WHERE NOT (`_t_rn` > (0 - `_t_w`))
)
SELECT `_t_file`, `_t_pos` FROM filter_5;

-- rows that enter and leave
CREATE OR REPLACE TEMPORARY VIEW `changes of s.matched` AS
WITH filter_1 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` > 0
),
explode_2 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_copy`, `_t_w` FROM filter_1 LATERAL VIEW explode(array_repeat(1, CAST(`_t_w` AS INT))) `e` AS `_t_copy`
),
project_3 AS (
  SELECT `id`, `v`, `_t_hash` FROM explode_2
),
filter_4 AS (
  SELECT `id`, `v`, `_t_hash`, `_t_w` FROM `delta` WHERE `_t_w` < 0
)
SELECT `id`, `v`, `_t_hash`, 1L AS `_t_w` FROM project_3
  UNION ALL SELECT `id`, `v`, `_t_hash`, `_t_w` FROM filter_4
