-- EXISTS, a NOT IN and an IN under OR: semi, anti and existence joins
-- query
SELECT id, v FROM a
WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.w > a.v) AND id NOT IN (SELECT a_id FROM b WHERE a_id < 9 AND w = 1)
AND (v = 3 OR k IN (SELECT k FROM b WHERE w > 4))
-- delta
WITH changes_1 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v`, `_t_w` FROM `changes of s.a`
),
asof_2 AS (
  SELECT `id` AS `a_id`, `k` AS `a_k`, `v` AS `a_v` FROM `s`.`a` /* at the frontier */
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
matched_6 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_2 LEFT SEMI JOIN project_5 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
weigh_7 AS (
  SELECT `a_id`, `a_k`, `a_v`, 1L AS `_t_w` FROM matched_6
),
unionall_8 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM changes_1
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM weigh_7
),
asof_9 AS (
  SELECT `k` AS `b_k`, `w` AS `b_w` FROM `s`.`b`
),
project_10 AS (
  SELECT `b_k`, `b_w` FROM asof_9
),
project_11 AS (
  SELECT `b_k`, `b_w` FROM project_10
),
matched_12 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM unionall_8 LEFT SEMI JOIN project_11 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
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
  SELECT `a_id`, `a_k`, `a_v` FROM matched_6 LEFT SEMI JOIN project_15 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
weigh_17 AS (
  SELECT `a_id`, `a_k`, `a_v`, -1L AS `_t_w` FROM matched_16
),
unionall_18 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM matched_12
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM weigh_17
),
matched_19 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM asof_2 LEFT SEMI JOIN project_15 ON (`b_k` = `a_k`) AND (`b_w` > `a_v`)
),
changes_20 AS (
  SELECT `a_id` AS `b_a_id_2`, `w` AS `b_w_2`, `_t_w` FROM `changes of s.b`
),
filter_21 AS (
  SELECT `b_a_id_2`, `b_w_2`, `_t_w` FROM changes_20 WHERE `b_a_id_2` < 9 AND `b_w_2` = 1
),
project_22 AS (
  SELECT `b_a_id_2` AS `a_id_2`, `_t_w` FROM filter_21
),
project_23 AS (
  SELECT `a_id_2`, `_t_w` FROM project_22
),
matched_24 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_19 LEFT SEMI JOIN project_23 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
weigh_25 AS (
  SELECT `a_id`, `a_k`, `a_v`, 1L AS `_t_w` FROM matched_24
),
unionall_26 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM unionall_18
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM weigh_25
),
asof_27 AS (
  SELECT `a_id` AS `b_a_id_2`, `w` AS `b_w_2` FROM `s`.`b`
),
filter_28 AS (
  SELECT `b_a_id_2`, `b_w_2` FROM asof_27 WHERE `b_a_id_2` < 9 AND `b_w_2` = 1
),
project_29 AS (
  SELECT `b_a_id_2` AS `a_id_2` FROM filter_28
),
project_30 AS (
  SELECT `a_id_2` FROM project_29
),
matched_31 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM unionall_26 LEFT ANTI JOIN project_30 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
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
  SELECT `a_id`, `a_k`, `a_v` FROM matched_24 LEFT ANTI JOIN project_35 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
weigh_37 AS (
  SELECT `a_id`, `a_k`, `a_v`, -1L AS `_t_w` FROM matched_36
),
unionall_38 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM matched_31
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM weigh_37
),
matched_39 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_19 LEFT ANTI JOIN project_35 ON ((`a_id` = `a_id_2`) OR isnull(`a_id` = `a_id_2`))
),
changes_40 AS (
  SELECT `k` AS `b_k_3`, `w` AS `b_w_3`, `_t_w` FROM `changes of s.b`
),
filter_41 AS (
  SELECT `b_k_3`, `b_w_3`, `_t_w` FROM changes_40 WHERE `b_w_3` > 4
),
project_42 AS (
  SELECT `b_k_3` AS `k`, `_t_w` FROM filter_41
),
project_43 AS (
  SELECT `k`, `_t_w` FROM project_42
),
matched_44 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_39 LEFT SEMI JOIN project_43 ON (`a_k` = `k`)
),
weigh_45 AS (
  SELECT `a_id`, `a_k`, `a_v`, 1L AS `_t_w` FROM matched_44
),
unionall_46 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM unionall_38
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM weigh_45
),
asof_47 AS (
  SELECT `k` AS `b_k_3`, `w` AS `b_w_3` FROM `s`.`b`
),
filter_48 AS (
  SELECT `b_k_3`, `b_w_3` FROM asof_47 WHERE `b_w_3` > 4
),
project_49 AS (
  SELECT `b_k_3` AS `k` FROM filter_48
),
project_50 AS (
  SELECT `k` FROM project_49
),
matched_51 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM unionall_46 LEFT SEMI JOIN project_50 ON (`a_k` = `k`)
),
matched_52 AS (
  SELECT `a_id`, `a_k`, `a_v`, `_t_w` FROM unionall_46 LEFT ANTI JOIN project_50 ON (`a_k` = `k`)
),
matched_53 AS (
  SELECT `a_id`, `a_k`, `a_v`, true AS `in_q`, `_t_w` FROM matched_51
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, false AS `in_q`, `_t_w` FROM matched_52
),
asof_54 AS (
  SELECT `k` AS `b_k_3`, `w` AS `b_w_3` FROM `s`.`b` /* at the frontier */
),
filter_55 AS (
  SELECT `b_k_3`, `b_w_3` FROM asof_54 WHERE `b_w_3` > 4
),
project_56 AS (
  SELECT `b_k_3` AS `k` FROM filter_55
),
project_57 AS (
  SELECT `k` FROM project_56
),
matched_58 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_44 LEFT SEMI JOIN project_57 ON (`a_k` = `k`)
),
matched_59 AS (
  SELECT `a_id`, `a_k`, `a_v` FROM matched_44 LEFT ANTI JOIN project_57 ON (`a_k` = `k`)
),
matched_60 AS (
  SELECT `a_id`, `a_k`, `a_v`, true AS `in_q` FROM matched_58
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, false AS `in_q` FROM matched_59
),
weigh_61 AS (
  SELECT `a_id`, `a_k`, `a_v`, `in_q`, -1L AS `_t_w` FROM matched_60
),
unionall_62 AS (
  SELECT `a_id`, `a_k`, `a_v`, `in_q`, `_t_w` FROM matched_53
  UNION ALL SELECT `a_id`, `a_k`, `a_v`, `in_q`, `_t_w` FROM weigh_61
),
filter_63 AS (
  SELECT `a_id`, `a_k`, `a_v`, `in_q`, `_t_w` FROM unionall_62 WHERE `a_v` = 3 OR `in_q`
),
project_64 AS (
  SELECT `a_id` AS `id`, `a_v` AS `v`, `_t_w` FROM filter_63
),
project_65 AS (
  SELECT `id`, `v`, `_t_w` FROM project_64
)
SELECT `id`, `v`, `_t_w` FROM project_65
