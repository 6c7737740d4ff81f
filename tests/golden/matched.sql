-- EXISTS, a NOT IN and an IN under OR: semi, anti and existence joins
-- query
SELECT id, v FROM a
WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.w > a.v) AND id NOT IN (SELECT a_id FROM b WHERE a_id < 9 AND w = 1)
AND (v = 3 OR k IN (SELECT k FROM b WHERE w > 4))
-- delta
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `__w` FROM `changes of s.a`
),
asof_2 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b`
),
project_3 AS (
  SELECT `b_k`, `b_w` FROM asof_2
),
project_4 AS (
  SELECT `b_k`, `b_w` FROM project_3
),
matched_5 AS (
  SELECT `a_id`, `a_k`, `a_v`, `__w` FROM changes_1 LEFT SEMI JOIN project_4 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
asof_6 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` /* at the frontier */
),
changes_7 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w`, `__w` FROM `changes of s.b`
),
project_8 AS (
  SELECT `b_k`, `b_w`, `__w` FROM changes_7
),
project_9 AS (
  SELECT `b_k`, `b_w`, `__w` FROM project_8
),
matched_10 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_6 LEFT SEMI JOIN project_9 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
matched_11 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_10 LEFT SEMI JOIN project_4 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
weigh_12 AS (
  SELECT `a_id`, `a_k`, `a_v`, 1L AS `__w` FROM matched_11
),
asof_13 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b` /* at the frontier */
),
project_14 AS (
  SELECT `b_k`, `b_w` FROM asof_13
),
project_15 AS (
  SELECT `b_k`, `b_w` FROM project_14
),
matched_16 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_10 LEFT SEMI JOIN project_15 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
weigh_17 AS (
  SELECT `a_id`, `a_k`, `a_v`, -1L AS `__w` FROM matched_16
),
unionall_18 AS (
  SELECT `a_id`, `a_k`, `a_v`, `__w` FROM matched_5
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `__w` FROM weigh_12
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `__w` FROM weigh_17
),
asof_19 AS (
  SELECT `a_id` AS `b_a_id_2`, `w` AS `b_w_2` FROM `s`.`b`
),
filter_20 AS (
  SELECT `b_a_id_2`, `b_w_2` FROM asof_19 WHERE `b_a_id_2` < 9 AND `b_w_2` = 1
),
project_21 AS (
  SELECT `b_a_id_2` AS `a_id_2` FROM filter_20
),
project_22 AS (
  SELECT `a_id_2` FROM project_21
),
matched_23 AS (
  SELECT `a_id`, `a_k`, `a_v`, `__w` FROM unionall_18 LEFT ANTI JOIN project_22 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
matched_24 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_6 LEFT SEMI JOIN project_15 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
changes_25 AS (
  SELECT `a_id` AS `b_a_id_2`, `w` AS `b_w_2`, `__w` FROM `changes of s.b`
),
filter_26 AS (
  SELECT `b_a_id_2`, `b_w_2`, `__w` FROM changes_25 WHERE `b_a_id_2` < 9 AND `b_w_2` = 1
),
project_27 AS (
  SELECT `b_a_id_2` AS `a_id_2`, `__w` FROM filter_26
),
project_28 AS (
  SELECT `a_id_2`, `__w` FROM project_27
),
matched_29 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_24 LEFT SEMI JOIN project_28 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
matched_30 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_29 LEFT ANTI JOIN project_22 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
weigh_31 AS (
  SELECT `a_id`, `a_k`, `a_v`, 1L AS `__w` FROM matched_30
),
asof_32 AS (
  SELECT `a_id` AS `b_a_id_2`, `w` AS `b_w_2` FROM `s`.`b` /* at the frontier */
),
filter_33 AS (
  SELECT `b_a_id_2`, `b_w_2` FROM asof_32 WHERE `b_a_id_2` < 9 AND `b_w_2` = 1
),
project_34 AS (
  SELECT `b_a_id_2` AS `a_id_2` FROM filter_33
),
project_35 AS (
  SELECT `a_id_2` FROM project_34
),
matched_36 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_29 LEFT ANTI JOIN project_35 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
weigh_37 AS (
  SELECT `a_id`, `a_k`, `a_v`, -1L AS `__w` FROM matched_36
),
unionall_38 AS (
  SELECT `a_id`, `a_k`, `a_v`, `__w` FROM matched_23
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `__w` FROM weigh_31
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `__w` FROM weigh_37
),
asof_39 AS (
  SELECT `k` AS `b_k_3`, `w` AS `b_w_3` FROM `s`.`b`
),
filter_40 AS (
  SELECT `b_k_3`, `b_w_3` FROM asof_39 WHERE `b_w_3` > 4
),
project_41 AS (
  SELECT `b_k_3` AS `k` FROM filter_40
),
project_42 AS (
  SELECT `k` FROM project_41
),
matched_43 AS (
  SELECT `a_id`, `a_k`, `a_v`, `__w` FROM unionall_38 LEFT SEMI JOIN project_42 ON (`a_k` = `k`)
),
matched_44 AS (
  SELECT `a_id`, `a_k`, `a_v`, `__w` FROM unionall_38 LEFT ANTI JOIN project_42 ON (`a_k` = `k`)
),
matched_45 AS (
  SELECT `a_id`, `a_k`, `a_v`, true AS `in_q`, `__w` FROM matched_43
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, false AS `in_q`, `__w` FROM matched_44
),
matched_46 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_24 LEFT ANTI JOIN project_35 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
changes_47 AS (
  SELECT `k` AS `b_k_3`, `w` AS `b_w_3`, `__w` FROM `changes of s.b`
),
filter_48 AS (
  SELECT `b_k_3`, `b_w_3`, `__w` FROM changes_47 WHERE `b_w_3` > 4
),
project_49 AS (
  SELECT `b_k_3` AS `k`, `__w` FROM filter_48
),
project_50 AS (
  SELECT `k`, `__w` FROM project_49
),
matched_51 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_46 LEFT SEMI JOIN project_50 ON (`a_k` = `k`)
),
matched_52 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_51 LEFT SEMI JOIN project_42 ON (`a_k` = `k`)
),
matched_53 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_51 LEFT ANTI JOIN project_42 ON (`a_k` = `k`)
),
matched_54 AS (
  SELECT `a_id`, `a_k`, `a_v`, true AS `in_q` FROM matched_52
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, false AS `in_q` FROM matched_53
),
weigh_55 AS (
  SELECT `a_id`, `a_k`, `a_v`, `in_q`, 1L AS `__w` FROM matched_54
),
asof_56 AS (
  SELECT `k` AS `b_k_3`, `w` AS `b_w_3` FROM `s`.`b` /* at the frontier */
),
filter_57 AS (
  SELECT `b_k_3`, `b_w_3` FROM asof_56 WHERE `b_w_3` > 4
),
project_58 AS (
  SELECT `b_k_3` AS `k` FROM filter_57
),
project_59 AS (
  SELECT `k` FROM project_58
),
matched_60 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_51 LEFT SEMI JOIN project_59 ON (`a_k` = `k`)
),
matched_61 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_51 LEFT ANTI JOIN project_59 ON (`a_k` = `k`)
),
matched_62 AS (
  SELECT `a_id`, `a_k`, `a_v`, true AS `in_q` FROM matched_60
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, false AS `in_q` FROM matched_61
),
weigh_63 AS (
  SELECT `a_id`, `a_k`, `a_v`, `in_q`, -1L AS `__w` FROM matched_62
),
unionall_64 AS (
  SELECT `a_id`, `a_k`, `a_v`, `in_q`, `__w` FROM matched_45
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `in_q`, `__w` FROM weigh_55
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `in_q`, `__w` FROM weigh_63
),
filter_65 AS (
  SELECT `a_id`, `a_k`, `a_v`, `in_q`, `__w` FROM unionall_64 WHERE `a_v` = 3 OR `in_q`
),
project_66 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v`, `__w` FROM filter_65
),
project_67 AS (
  SELECT `id`, `v`, `__w` FROM project_66
)
SELECT `id`, `v`, `__w` FROM project_67
