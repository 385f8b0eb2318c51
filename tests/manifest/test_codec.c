/* SPDX-License-Identifier: Apache-2.0
 * test_codec.c: encodes tables, decodes and compares them, and prints them as
 * JSON.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

/* ------------------------------------------------------------------ helpers */

/* Counts blocks and fails the allocations after `limit`. */
typedef struct meter {
  size_t calls, limit, blocks, bytes;
} meter;

static void *meter_alloc(void *ctx, size_t bytes, size_t align) {
  meter *m = ctx;
  if (m->calls++ >= m->limit) return NULL;
  size_t whole = (bytes + align - 1) / align * align;
  ++m->blocks;
  m->bytes += bytes;
  return aligned_alloc(align, whole);
}

static void meter_free(void *ctx, void *memory) {
  meter *m = ctx;
  m->blocks -= memory != NULL;
  free(memory);
}

static tn__env metered_env(meter *m) {
  tn__env env = *tn__env_default();
  env.allocator = (tn_allocator){m, meter_alloc, meter_free};
  return env;
}

static tn__buf encode_sample(const tn_plugin *plugin) {
  tn__buf bytes;
  tn__buf_init(&bytes, tn__env_default());
  tn__tables_encode(plugin, &bytes);
  cr_assert(!bytes.failed);
  return bytes;
}

static tn_plugin tiny_plugin(void) {
  return (tn_plugin){.struct_size = sizeof(tn_plugin),
                     .abi_minor = 2,
                     .min_host_minor = 2,
                     .release = 1,
                     .name = "p"};
}

/* -------------------------------------------------------------------- codec */

Test(codec, writes_the_smallest_plugin_as_the_format_page_says) {
  /* version; length 14; abi 0.2, hosts from 2, no flags, release 1; "p" and
   * three absent texts; four empty lists. */
  static const char expected[] =
      "\1\16\0\0\0"
      "\0\2\2\0\1"
      "\2p\0\0\0"
      "\0\0\0\0";
  const tn_plugin plugin = tiny_plugin();
  tn__buf bytes = encode_sample(&plugin);
  cr_assert_eq(bytes.n, sizeof expected - 1);
  cr_assert_eq(memcmp(bytes.s, expected, bytes.n), 0);
  tn__buf_deinit(&bytes);
}

Test(codec, writes_numbers_as_the_format_page_says) {
  /* 300 = 0x12c: seven bits at a time, lowest first. */
  tn_plugin plugin = tiny_plugin();
  plugin.release = 300;
  tn__buf bytes = encode_sample(&plugin);
  cr_assert_eq(memcmp(bytes.s + 9, "\xac\x02\2p", 4), 0);
  tn__buf_deinit(&bytes);
}

Test(codec, decodes_every_form_of_member) {
  sample s;
  tn__arena arena;
  const tn_plugin *p = NULL;
  sample_init(&s);
  tn__buf bytes = encode_sample(&s.plugin);
  tn__arena_init(&arena, tn__env_default());
  cr_assert_eq(tn__tables_decode(&arena, bytes.s, bytes.n, &p), TN_OK);
  const tn_op *op = p->operators[0];
  cr_assert_str_eq(p->summary, "Sch\xc3\xb6n");
  cr_assert_eq(p->release, 300);
  cr_assert_eq(p->magic, TN_PLUGIN_MAGIC);
  cr_assert_eq(p->manifest_hash, tn__hash(bytes.s, bytes.n));
  cr_assert_eq(op->struct_size, sizeof *op);
  cr_assert_null(op->doc);
  cr_assert_eq(op->params[1]->min_int, INT64_MIN);
  cr_assert_eq(op->params[1]->max_int, INT64_MAX);
  cr_assert_eq(op->params[3]->min_float, -0.5);
  cr_assert_eq(op->params[0]->rank_of, TN_NONE);
  cr_assert_str_eq(op->params[2]->values[1], "full");
  cr_assert_eq(op->nodes[3].value, -7);
  cr_assert_eq(op->inputs[0]->terms[2].spread, 1);
  cr_assert_eq(op->gradient->inputs[0]->needs[1].metadata, 1);
  cr_assert_eq(p->kernels[0]->priority, -3);
  cr_assert_eq(p->kernels[0]->dtype_sets[0], TN_BIT_F32);
  cr_assert_eq(p->kernels[1]->resources[0], TN_RESOURCE_RANDOM);
  cr_assert_null(p->kernels[0]->compute);
  cr_assert_str_eq(p->targets[0]->op, "other.conv@1");
  tn__arena_deinit(&arena);
  tn__buf_deinit(&bytes);
}

Test(codec, refuses_every_truncation) {
  sample s;
  sample_init(&s);
  tn__buf bytes = encode_sample(&s.plugin);
  for (size_t n = 0; n < bytes.n; ++n) {
    const tn_plugin *p = NULL;
    tn__arena arena;
    char *cut = malloc(n + 1); /* exactly n bytes, for the sanitizer */
    char *moved = realloc(cut, n ? n : 1);
    memcpy(moved, bytes.s, n);
    tn__arena_init(&arena, tn__env_default());
    cr_assert_eq(tn__tables_decode(&arena, moved, n, &p), TN_PLUGIN);
    cr_assert_eq(tn__tables_compare(tn__env_default(), &s.plugin, moved, n),
                 TN_PLUGIN);
    tn__arena_deinit(&arena);
    free(moved);
  }
  tn__buf_deinit(&bytes);
}

/* Equal tables give equal bytes, so other bytes are other tables or none. */
Test(codec, refuses_a_flipped_bit_or_decodes_it_exactly) {
  sample s;
  sample_init(&s);
  tn__buf bytes = encode_sample(&s.plugin);
  for (size_t bit = 0; bit < 8 * bytes.n; ++bit) {
    const tn_plugin *p = NULL;
    tn__arena arena;
    bytes.s[bit / 8] ^= (char)(1 << bit % 8);
    tn__arena_init(&arena, tn__env_default());
    if (!tn__tables_decode(&arena, bytes.s, bytes.n, &p)) {
      tn__buf again = encode_sample(p);
      /* A newer writer's bytes may contain more than this library knows. */
      if (p->abi_minor <= TN_ABI_MINOR)
        cr_assert(again.n == bytes.n && !memcmp(again.s, bytes.s, bytes.n),
                  "bit %zu", bit);
      (void)!tn__tables_check(tn__env_default(), p, false);
      tn__buf_deinit(&again);
    }
    /* Bytes 5 to 7 are the writer's versions, which need not be the plugin's.
     */
    if (bit / 8 < 5 || bit / 8 > 7)
      cr_assert_eq(
          tn__tables_compare(tn__env_default(), &s.plugin, bytes.s, bytes.n),
          TN_PLUGIN, "bit %zu", bit);
    bytes.s[bit / 8] ^= (char)(1 << bit % 8);
    tn__arena_deinit(&arena);
  }
  tn__buf_deinit(&bytes);
}

Test(codec, uses_little_memory_for_a_list_with_a_wrong_length) {
  /* Like the smallest plugin, but with 2^32-1 operators. */
  static const char hostile[] =
      "\1\22\0\0\0"
      "\0\2\2\0\1"
      "\2p\0\0\0"
      "\xff\xff\xff\xff\xf\0\0\0";
  meter m = {.limit = SIZE_MAX};
  const tn__env env = metered_env(&m);
  const tn_plugin *p = NULL;
  tn__arena arena;
  tn__arena_init(&arena, &env);
  cr_assert_eq(tn__tables_decode(&arena, hostile, sizeof hostile - 1, &p),
               TN_PLUGIN);
  cr_assert_str_eq(tn_error_text(),
                   "the manifest in the note is malformed at byte 20: a list "
                   "is longer than the data; rebuild the plugin");
  cr_assert_lt(m.bytes, 100000);
  tn__arena_deinit(&arena);
  cr_assert_eq(m.blocks, 0);
}

Test(codec, refuses_another_encoding) {
  const tn_plugin *p = NULL;
  tn__arena arena;
  tn__arena_init(&arena, tn__env_default());
  cr_assert_eq(tn__tables_decode(&arena, "\2\0\0\0\0", 5, &p), TN_PLUGIN);
  cr_assert(strstr(tn_error_text(), "first byte is not 1"));
  tn__arena_deinit(&arena);
}

/* The body of the smallest plugin with one byte more than this library
 * knows. */
Test(codec, skips_members_of_a_newer_minor) {
  static const char same[] = "\1\17\0\0\0\0\2\2\0\1\2p\0\0\0\0\0\0\0\7";
  static const char newer[] = "\1\17\0\0\0\0\3\2\0\1\2p\0\0\0\0\0\0\0\7";
  const tn_plugin *p = NULL;
  tn_plugin plugin = tiny_plugin();
  tn__arena arena;
  tn__arena_init(&arena, tn__env_default());
  cr_assert_eq(tn__tables_decode(&arena, same, sizeof same - 1, &p), TN_PLUGIN);
  cr_assert_eq(tn__tables_decode(&arena, newer, sizeof newer - 1, &p), TN_OK);
  cr_assert_eq(p->abi_minor, 3);
  plugin.abi_minor = 3;
  cr_assert_eq(
      tn__tables_compare(tn__env_default(), &plugin, newer, sizeof newer - 1),
      TN_OK);
  tn__arena_deinit(&arena);
}

/* The smallest plugin of an older writer with a tn_plugin without targets. */
Test(codec, reads_members_unknown_to_an_older_minor_as_zero) {
  static const char older[] = "\1\14\0\0\0\0\0\0\0\1\2p\0\0\0\0\0";
  static const char same[] = "\1\14\0\0\0\0\2\0\0\1\2p\0\0\0\0\0";
  static const tn_target target = {.struct_size = sizeof target, .op = "a.b@1"};
  static const tn_target *const targets[] = {&target};
  const tn_plugin *p = NULL;
  tn_plugin plugin = tiny_plugin();
  tn__arena arena;
  tn__arena_init(&arena, tn__env_default());
  cr_assert_eq(tn__tables_decode(&arena, same, sizeof same - 1, &p), TN_PLUGIN);
  cr_assert_eq(tn__tables_decode(&arena, older, sizeof older - 1, &p), TN_OK,
               "%s", tn_error_text());
  cr_assert_eq(p->n_targets, 0);
  cr_assert_str_eq(p->name, "p");
  cr_assert_eq(
      tn__tables_compare(tn__env_default(), &plugin, older, sizeof older - 1),
      TN_OK, "%s", tn_error_text());
  plugin.n_targets = 1, plugin.targets = targets;
  cr_assert_eq(
      tn__tables_compare(tn__env_default(), &plugin, older, sizeof older - 1),
      TN_PLUGIN);
  cr_assert_str_eq(tn_error_text(),
                   "targets is not in the note, which an older opgen wrote, "
                   "but in the descriptor");
  tn__arena_deinit(&arena);
}

Test(codec, survives_every_failing_allocation) {
  sample s;
  tn_code rc = TN_OUT_OF_MEMORY;
  sample_init(&s);
  tn__buf bytes = encode_sample(&s.plugin);
  for (size_t limit = 0; rc == TN_OUT_OF_MEMORY; ++limit) {
    meter m = {.limit = limit};
    const tn__env env = metered_env(&m);
    const tn_plugin *p = NULL;
    tn__arena arena;
    cr_assert_lt(limit, 1000);
    tn__arena_init(&arena, &env);
    rc = tn__tables_decode(&arena, bytes.s, bytes.n, &p);
    if (!rc) rc = tn__tables_check(&env, p, false);
    tn__arena_deinit(&arena);
    cr_assert_eq(m.blocks, 0);
  }
  cr_assert_eq(rc, TN_OK);
  tn__buf_deinit(&bytes);
}

/* ------------------------------------------------------------------ compare */

Test(compare, finds_equal_tables_equal_and_allocates_nothing) {
  sample s;
  meter m = {.limit = 0};
  const tn__env env = metered_env(&m);
  sample_init(&s);
  tn__buf bytes = encode_sample(&s.plugin);
  cr_assert_eq(tn__tables_compare(&env, &s.plugin, bytes.s, bytes.n), TN_OK);
  tn__buf_deinit(&bytes);
}

/* Encodes the sample, lets the test change it, compares. */
#define DIFFERS(change, text)                                               \
  do {                                                                      \
    sample s;                                                               \
    sample_init(&s);                                                        \
    tn__buf bytes = encode_sample(&s.plugin);                               \
    change;                                                                 \
    cr_assert_eq(                                                           \
        tn__tables_compare(tn__env_default(), &s.plugin, bytes.s, bytes.n), \
        TN_PLUGIN);                                                         \
    cr_assert_str_eq(tn_error_text(), text);                                \
    tn__buf_deinit(&bytes);                                                 \
  } while (0)

Test(compare, names_the_first_difference_with_both_values) {
  DIFFERS(s.kernel_size.min_int = 2,
          "operators[0].params[0].min_int is 1 in the note, 2 in the "
          "descriptor");
  DIFFERS(s.bias.min_float = 0.25,
          "operators[0].params[3].min_float is -0.5 in the note, 0.25 in the "
          "descriptor");
  DIFFERS(s.mean.dtype = TN_F64,
          "operators[0].aux[0].dtype is f32 in the note, f64 in the "
          "descriptor");
  DIFFERS(s.out.inplace = TN_NONE,
          "operators[0].outputs[0].inplace is 0 in the note, none in the "
          "descriptor");
  DIFFERS(s.kernel.id = "acme.conv.gpu",
          "kernels[0].id is \"acme.conv.cpu\" in the note, \"acme.conv.gpu\" "
          "in the descriptor");
  DIFFERS(s.op.replaces = NULL,
          "operators[0].replaces is \"nn.convolution\" in the note, absent in "
          "the descriptor");
  DIFFERS(s.op.family = "pooling",
          "operators[0].family is \"convolution\" in the note, \"pooling\" in "
          "the descriptor");
  DIFFERS(s.dims[1] = "D",
          "operators[0].dims[1] is \"C\" in the note, \"D\" in the descriptor");
  DIFFERS(s.op.n_nodes = 4,
          "operators[0].nodes.length is 5 in the note, 4 in the descriptor");
  DIFFERS(s.operators[0] = NULL,
          "operators[0] is in the note, but is NULL in the descriptor");
}

Test(compare, accepts_a_descriptor_that_is_older_than_the_family) {
  sample s;
  sample_init(&s);
  tn__buf bytes = encode_sample(&s.plugin);
  s.op.struct_size = offsetof(tn_op, family);
  s.op.family = "not compared";
  cr_assert_eq(
      tn__tables_compare(tn__env_default(), &s.plugin, bytes.s, bytes.n), TN_OK,
      "%s", tn_error_text());
  tn__buf_deinit(&bytes);
}

/* --------------------------------------------------------------------- json */

Test(json, writes_the_smallest_plugin) {
  const tn_plugin plugin = tiny_plugin();
  tn__buf out;
  tn__buf_init(&out, tn__env_default());
  tn__plugin_json(&plugin, &out);
  cr_assert_str_eq(
      out.s,
      "{\"abi_major\": 0, \"abi_minor\": 2, \"min_host_minor\": 2, "
      "\"flags\": [], \"release\": 1, \"name\": \"p\", \"summary\": null, "
      "\"license\": null, \"opgen\": null, \"operators\": [], "
      "\"kernels\": [], \"targets\": [], \"dependencies\": []}");
  tn__buf_deinit(&out);
}

Test(json, writes_numbers_that_are_names_as_names) {
  sample s;
  tn__buf out;
  sample_init(&s);
  tn__buf_init(&out, tn__env_default());
  tn__op_json(&s.op, &out);
  cr_assert(strstr(out.s,
                   "\"type\": \"ints\", "
                   "\"flags\": [\"required\", \"has_min\"]"));
  cr_assert(strstr(out.s, "\"rank_of\": null"));
  cr_assert(strstr(out.s, "\"allowed\": [\"f32\", \"f64\"]"));
  cr_assert(strstr(out.s,
                   "{\"op\": \"const\", \"a\": 0, \"b\": 0, \"c\": 0, "
                   "\"value\": -7}"));
  cr_assert(strstr(out.s, "\"min_float\": -0.5"));
  cr_assert(strstr(out.s, "\"family\": \"convolution\"}"), "%s", out.s);
  out.n = 0;
  s.mean.flags = TN_ARG_TRAINED;
  s.out.flags = TN_ARG_CONTIGUOUS | TN_ARG_VIEW;
  s.out.role = TN_ROLE_LOSS;
  tn__op_json(&s.op, &out);
  cr_assert(strstr(out.s, "\"flags\": [\"trained\"]"), "%s", out.s);
  cr_assert(strstr(out.s,
                   "\"flags\": [\"contiguous\", \"view\"], \"role\": \"loss\""),
            "%s", out.s);
  tn__buf_deinit(&out);
}
