/* SPDX-License-Identifier: Apache-2.0
 * The init of plugins/nn or plugins/tensor (PLUGIN_INIT), with a host that
 * refuses a request: init frees everything that it allocated, as fini is not
 * called then. The plugin's calloc and free are those of this file.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "plugin.gen.h"
#include "tenon/draft/pass.h"

/* ---------------------------------------------------------------- the host */

static int n_held;      /* pieces of memory that the plugin has */
static int64_t room[8]; /* the only one that there is */
static int n_asked;     /* the number of requests to the host that may fail */
static int n_allowed;   /* how often it says yes */

void *counted_calloc(size_t n, size_t size);
void counted_free(void *memory);

void *counted_calloc(size_t n, size_t size) {
  if (n_held > 0 || n * size > sizeof room) return NULL;
  ++n_held;
  return memset(room, 0, sizeof room);
}

void counted_free(void *memory) {
  cr_assert_eq(memory, (void *)room);
  --n_held;
}

static int32_t asked(void) {
  return n_asked++ < n_allowed ? TN_OK : TN_OUT_OF_MEMORY;
}

static int32_t withdraw(tn_registrar *registrar, const char *kernel,
                        const char *why) {
  (void)registrar, (void)kernel, (void)why;
  return asked();
}

static int32_t add_pair(tn_registrar *registrar, const tn_fused_pair *pair) {
  (void)registrar, (void)pair;
  return asked();
}

/* The host accepts passes, and no plugin provides products. */
static const void *extension(const tn_host *host, const char *name) {
  static const tn_passes passes = {.struct_size = sizeof passes,
                                   .add_pair = add_pair};
  (void)host;
  return strcmp(name, TN_PASS_EXTENSION) == 0 ? &passes : NULL;
}

/* ------------------------------------------------------------------- tests */

static int32_t init(int allowed, void **instance) {
  tn_registrar registrar = {.withdraw = withdraw};
  const tn_host host = {.extension = extension};
  *instance = NULL;
  n_held = n_asked = 0;
  n_allowed = allowed;
  return PLUGIN_INIT(&host, &registrar, instance);
}

Test(init, fini_frees_everything_that_init_allocated) {
  void *instance = NULL;
  cr_assert_eq(init(1000, &instance), TN_OK);
  cr_assert_eq(n_held, 1);
  cr_assert_gt(n_asked, 1);
  PLUGIN_FINI(instance);
  cr_assert_eq(n_held, 0);
}

Test(init, an_init_that_fails_undoes_its_work) {
  void *instance = NULL;
  cr_assert_eq(init(1000, &instance), TN_OK);
  const int all = n_asked;
  for (int i = 0; i < all; ++i) {
    cr_assert_eq(init(i, &instance), TN_OUT_OF_MEMORY);
    cr_assert_eq(n_held, 0, "held after number %d was refused", i);
    cr_assert_null(instance);
  }
}
