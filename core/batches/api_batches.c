/* SPDX-License-Identifier: Apache-2.0
 * api_batches.c: the functions of data.h about batches. Each checks its
 * arguments and calls the other files.
 */
#include <inttypes.h>
#include <string.h>

#include "batches.h"
#include "runtime.h"

/* ------------------------------------------------------------------ options */

enum { MOST_PREFETCHED = 1024 };

static tn_code fail_option(const char *name, uint32_t value,
                           const char *remedy) {
  return tn__fail(TN_INVALID, "tn_data_options.%s is %" PRIu32 "; %s", name,
                  value, remedy);
}

/* Copies the options, with defaults filled in, and checks them. */
static tn_code read_options(const tn_data_options *from, tn_data_options *to) {
  *to = (tn_data_options){.struct_size = sizeof *to};
  if (from) {
    if (from->struct_size < sizeof *from)
      return fail_option("struct_size", from->struct_size,
                         "set it to sizeof(tn_data_options)");
    *to = *from;
  }
  if (to->batch == 0) to->batch = 1;
  if (to->n_parts == 0) to->n_parts = 1;
  if (to->place.device_type == 0) to->place.device_type = TN_DEVICE_CPU;
  if (to->prefetch == 0)
    to->prefetch = 2;
  else if (to->prefetch == TN_NO_PREFETCH)
    to->prefetch = 0;
  if (to->prefetch > MOST_PREFETCHED)
    return fail_option("prefetch", to->prefetch, "it is 1024 at most");
  if (to->batch > INT32_MAX)
    return fail_option("batch", to->batch, "it is 2^31 - 1 at most");
  if (to->last > TN_LAST_ROLL)
    return fail_option("last", to->last, "use one of TN_LAST_*");
  if (to->shuffle > 1) return fail_option("shuffle", to->shuffle, "use 0 or 1");
  if (to->on_damage > TN_DAMAGE_SKIP)
    return fail_option("on_damage", to->on_damage, "use one of TN_DAMAGE_*");
  if (to->part >= to->n_parts)
    return fail_option("part", to->part,
                       "it must be less than n_parts; parts are counted from "
                       "0");
  return TN_OK;
}

/* ------------------------------------------------------------------ opening */

/* Makes the data of a source, unless `rc` is a failure. */
static tn_code create_data(const tn__opening *opening, tn_code rc,
                           tn__source *source, tn_data **out) {
  return rc == TN_OK
             ? tn__data_create(opening->rt, source, opening->options, out)
             : rc;
}

tn_code tn_data_from_arrays(tn_runtime *rt, tn_array *const *fields, uint32_t n,
                            const tn_data_options *options, tn_data **out) {
  tn_data_options all;
  tn__source *source = NULL;
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(fields);
  TN__TRY(tn__runtime_check_call(&rt->env, __func__));
  if (n == 0)
    return tn__fail(TN_INVALID,
                    "tn_data_from_arrays: there are no fields; pass one array "
                    "at least");
  TN__TRY(read_options(options, &all));
  const tn__opening opening = {.rt = rt, .env = &rt->env, .options = &all};
  const tn_code rc = tn__source_of_arrays(&opening, n, fields, &source);
  return create_data(&opening, rc, source, out);
}

typedef struct kind {
  const char *name;
  tn_code (*open)(const tn__opening *opening, tn__source **out);
} kind;

static tn_code find_kind(const char *name, const kind **out) {
  static const kind kinds[] = {{"csv", tn__source_of_csv},
                               {"libsvm", tn__source_of_libsvm},
                               {"idx", tn__source_of_idx},
                               {"records", tn__source_of_records},
                               {"images", tn__source_of_images}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    *out = &kinds[i];
    if (strcmp(kinds[i].name, name) == 0) return TN_OK;
  }
  return tn__fail(TN_NOT_FOUND,
                  "tn_data_open: there is no kind of data \"%s\"; use csv, "
                  "libsvm, idx, records or images",
                  name);
}

tn_code tn_data_open(tn_runtime *rt, const tn_data_file *file,
                     const tn_data_options *options, tn_data **out) {
  tn_data_options all;
  tn__source *source = NULL;
  const kind *of = NULL;
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(file);
  TN__REQUIRE(file->path);
  TN__REQUIRE(file->kind);
  TN__TRY(tn__runtime_check_call(&rt->env, __func__));
  TN__TRY(find_kind(file->kind, &of));
  TN__TRY(read_options(options, &all));
  const tn__opening opening = {rt, &rt->env, file->path,
                               file->params ? file->params : "", &all};
  const tn_code rc = of->open(&opening, &source);
  return create_data(&opening, rc, source, out);
}

/* ------------------------------------------------------------------ batches */

tn_code tn_data_next(tn_data *data, tn_batch *batch) {
  TN__REQUIRE(batch);
  *batch = (tn_batch){0};
  TN__REQUIRE(data);
  TN__TRY(tn__runtime_check_call(data->env, __func__));
  return tn__data_next(data, batch);
}

tn_code tn_data_rewind(tn_data *data) {
  TN__REQUIRE(data);
  TN__TRY(tn__runtime_check_call(data->env, __func__));
  tn__data_rewind(data);
  return TN_OK;
}

uint64_t tn_data_count_examples(const tn_data *data) {
  return data ? data->order.n_part : 0;
}

uint64_t tn_data_count_batches(const tn_data *data) {
  return data ? data->n_batches : 0;
}

uint64_t tn_data_count_damage(const tn_data *data) {
  return data ? data->source->n_damaged : 0;
}

tn_code tn_data_save(const tn_data *data, tn_text **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(data);
  TN__TRY(tn__runtime_check(data->env));
  return tn__data_save(data, out);
}

tn_code tn_data_restore(tn_data *data, const char *state) {
  TN__REQUIRE(data);
  TN__REQUIRE(state);
  TN__TRY(tn__runtime_check_call(data->env, __func__));
  return tn__data_restore(data, state);
}

/* In a forked child nothing is freed, because locks may be held for ever there.
 * Inside of a job neither: it may not wait for the jobs that fill batches.
 */
void tn_data_release(tn_data *data) {
  if (data && tn__runtime_check_call(data->env, __func__) == TN_OK)
    tn__data_release(data);
}
