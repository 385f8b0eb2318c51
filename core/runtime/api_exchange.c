/* SPDX-License-Identifier: Apache-2.0
 * api_exchange.c: the functions of exchange.h about DLPack and files. Each
 * checks its arguments and calls core/exchange.
 */
#include "exchange.h"
#include "runtime.h"

/* ----------------------------------------------------------------- DLPack */

tn_code tn_array_from_dlpack(tn_runtime *rt, tn_dlpack *from, uint32_t flags,
                             tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(from);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__array_from_dlpack(&rt->env, from, flags, out);
}

tn_code tn_array_from_dlpack_versioned(tn_runtime *rt,
                                       tn_dlpack_versioned *from,
                                       uint32_t flags, tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(from);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__array_from_dlpack_versioned(&rt->env, from, flags, out);
}

tn_code tn_array_to_dlpack(tn_array *array, tn_dlpack **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(array);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_to_dlpack(array, out);
}

tn_code tn_array_to_dlpack_versioned(tn_array *array,
                                     tn_dlpack_versioned **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(array);
  TN__TRY(tn__runtime_check(array->env));
  return tn__array_to_dlpack_versioned(array, out);
}

/* ------------------------------------------------------------------ files */

tn_code tn_bundle_open(tn_runtime *rt, const char *path, tn_bundle **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(rt);
  TN__REQUIRE(path);
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__bundle_open(&rt->env, path, out);
}

void tn_bundle_close(tn_bundle *bundle) {
  tn__bundle_close(bundle);
}

size_t tn_bundle_size(const tn_bundle *bundle) {
  return bundle ? bundle->n : 0;
}

tn_code tn_bundle_at(const tn_bundle *bundle, size_t index,
                     tn_bundle_entry *out) {
  TN__REQUIRE(out);
  *out = (tn_bundle_entry){0};
  TN__REQUIRE(bundle);
  if (index >= bundle->n)
    return tn__fail(TN_NOT_FOUND, "%s: there is no array number %zu among %zu",
                    bundle->file.path, index, bundle->n);
  const tn__bundle_entry *e = &bundle->entries[index];
  *out = (tn_bundle_entry){e->name, e->shape, e->ndim, e->dtype};
  return TN_OK;
}

tn_code tn_bundle_pair_at(const tn_bundle *bundle, size_t index,
                          tn_bundle_pair *out) {
  TN__REQUIRE(out);
  *out = (tn_bundle_pair){0};
  TN__REQUIRE(bundle);
  if (index >= bundle->n_metadata)
    return tn__fail(TN_NOT_FOUND,
                    "%s: there is no line %zu of metadata among %zu",
                    bundle->file.path, index, bundle->n_metadata);
  *out = bundle->metadata[index];
  return TN_OK;
}

tn_code tn_bundle_get(tn_bundle *bundle, const char *name, uint32_t flags,
                      tn_array **out) {
  TN__REQUIRE(out);
  *out = NULL;
  TN__REQUIRE(bundle);
  TN__TRY(tn__runtime_check(bundle->env));
  return tn__bundle_get(bundle, name, flags, out);
}

static tn_code check_argument(const void *argument, const char *name) {
  return tn__argument_check(argument, "tn_bundle_save", name);
}

/* Checks every pointer that a save follows. A .npy uses no names. */
static tn_code check_content(const tn_bundle_content *content, bool named) {
  if (content->struct_size < sizeof *content)
    return tn__fail(TN_INVALID,
                    "tn_bundle_content.struct_size is %u; set it to"
                    " sizeof(tn_bundle_content)",
                    (unsigned)content->struct_size);
  if (content->n_items > 0)
    TN__TRY(check_argument(content->items, "content->items"));
  if (content->n_metadata > 0)
    TN__TRY(check_argument(content->metadata, "content->metadata"));
  for (size_t i = 0; i < content->n_items; ++i) {
    TN__TRY(check_argument(content->items[i].array, "content->items[i].array"));
    if (named)
      TN__TRY(check_argument(content->items[i].name, "content->items[i].name"));
  }
  for (size_t i = 0; i < content->n_metadata; ++i) {
    TN__TRY(
        check_argument(content->metadata[i].key, "content->metadata[i].key"));
    TN__TRY(check_argument(content->metadata[i].value,
                           "content->metadata[i].value"));
  }
  return TN_OK;
}

tn_code tn_bundle_save(tn_runtime *rt, const char *path,
                       const tn_bundle_content *content) {
  TN__REQUIRE(rt);
  TN__REQUIRE(path);
  TN__REQUIRE(content);
  TN__TRY(check_content(content, tn__bundle_is_named(path)));
  TN__TRY(tn__runtime_check(&rt->env));
  return tn__bundle_save(&rt->env, path, content);
}
