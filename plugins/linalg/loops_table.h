/* SPDX-License-Identifier: Apache-2.0
 * loops_table.h: the table of loops of the type LOOPS_REAL; ends the
 * definitions of this type.
 */
static const linalg_loops LOOPS_NAME(table) = {
    .bytes = sizeof(LOOPS_REAL),
    .square = {[LINALG_COPY] = LOOPS_NAME(copy),
               [LINALG_TRANSPOSE] = LOOPS_NAME(transpose_square),
               [LINALG_IDENTITY] = LOOPS_NAME(make_identity),
               [LINALG_SYMMETRIC_PART] = LOOPS_NAME(symmetric_part),
               [LINALG_ADD_TRANSPOSE] = LOOPS_NAME(add_transpose),
               [LINALG_MINUS_TRANSPOSE] = LOOPS_NAME(minus_transpose),
               [LINALG_HALF_TRIANGLE] = LOOPS_NAME(half_triangle),
               [LINALG_MIRROR_LOWER] = LOOPS_NAME(mirror_lower),
               [LINALG_LOWER] = LOOPS_NAME(take_lower),
               [LINALG_UPPER_TRANSPOSED] = LOOPS_NAME(transpose_upper),
               [LINALG_LOWER_TRANSPOSED] = LOOPS_NAME(transpose_lower),
               [LINALG_EXTRACT_DIAGONAL] = LOOPS_NAME(extract_diagonal),
               [LINALG_MAKE_DIAGONAL] = LOOPS_NAME(make_diagonal),
               [LINALG_SUM_DIFFERENCES] = LOOPS_NAME(sum_differences),
               [LINALG_SUM_LOG_DIAGONAL] = LOOPS_NAME(sum_log_diagonal)},
    .transpose = LOOPS_NAME(transpose),
    .keep_triangle = LOOPS_NAME(keep_triangle),
    .divide_by_gaps = LOOPS_NAME(divide_by_gaps),
    .run = LOOPS_NAME(run_task),
    .det = LOOPS_NAME(find_det),
    .slogdet = LOOPS_NAME(find_slogdet),
    .scale = LOOPS_NAME(scale_square),
    .singular_cofactors = LOOPS_NAME(find_singular_cofactors),
    .choose_signs = LOOPS_NAME(choose_signs),
};

#undef LOOPS_REAL
#undef LOOPS_NAME
#undef LOOPS_LOG
#undef LOOPS_ABS
