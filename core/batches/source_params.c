/* SPDX-License-Identifier: Apache-2.0
 * source_params.c: the parameters of the kinds of data sets, as a text.
 */
#include "sources.h"

enum { MOST_PARAMS = 12 };

static const char *const dtypes[] = {"f32", "f64", "i32", "i64", "u8"};

static tn_field describe_param(const tn__source_param *p) {
  const bool is_dtype = p->type == TN_FIELD_DTYPE;
  const uint32_t bound = p->least != INT64_MIN && p->type != TN_FIELD_STRING
                             ? TN_FIELD_HAS_MIN
                             : 0;
  return (tn_field){
      .struct_size = sizeof(tn_field),
      .type = p->type,
      .flags = bound | (p->has_offset ? TN_FIELD_OPTIONAL : 0),
      .offset = p->offset,
      .has_offset = p->has_offset ? p->has_offset : TN_NONE,
      .rank_of = TN_NONE,
      .max_rank = p->type == TN_FIELD_INTS ? TN_MAX_NDIM - 1 : TN_NONE,
      .n_values = is_dtype ? sizeof dtypes / sizeof *dtypes : 0,
      .min_int = p->least,
      .name = p->name,
      .default_text = p->default_text,
      .values = is_dtype ? dtypes : NULL};
}

tn_code tn__source_params_parse(const tn__opening *opening,
                                const tn__source_params *params, void **out) {
  tn_field all[MOST_PARAMS];
  const tn_field *list[MOST_PARAMS];
  for (uint32_t i = 0; i < params->n; ++i) {
    all[i] = describe_param(&params->v[i]);
    list[i] = &all[i];
  }
  const tn__fields fields = {list, params->n, params->size, params->where};
  return tn__fields_parse(opening->env, &fields, opening->params, out);
}
