/* SPDX-License-Identifier: Apache-2.0
 * test/repeat.h: a part of test.h: one case that makes the same call often. Its
 * result must have the same bits each time, unless a kernel does not promise it
 * (TN_KERNEL_DETERMINISTIC): after another call with other numbers, and in a
 * runtime with one thread in place of three. Nor may calls on the CPU take
 * memory or descriptors that they do not give back.
 */
#ifndef TENON_TEST_REPEAT_H_
#define TENON_TEST_REPEAT_H_

enum {
  TN_TEST_TIMES = 6, /* calls, each of which must have left more, for a leak */
  TN_TEST_LEAK = 8   /* least bytes of each */
};

/* Results as bytes: outputs, then gradients. */
typedef struct tn_test_bits {
  void *v[2 * TN_TEST_MAX];
  size_t n[2 * TN_TEST_MAX];
} tn_test_bits;

static void tn_test_free_bits(tn_test_bits *bits) {
  for (size_t i = 0; i < 2 * TN_TEST_MAX; ++i) free(bits->v[i]);
  memset(bits, 0, sizeof *bits);
}

/* Whether every kernel of the pass that may take a call of the operator on the
 * subject's device promises the same bits. */
static bool tn_test_is_deterministic(const tn_test_subject *k, uint32_t pass) {
  tn_plugin_info info;
  for (size_t i = 0; tn_plugin_at(k->t->rt, i, &info) == TN_OK; ++i) {
    for (uint32_t j = 0; j < info.plugin->n_kernels; ++j) {
      const tn_kernel *kernel = info.plugin->kernels[j];
      if (kernel->pass == pass && strcmp(kernel->op, k->op_name) == 0 &&
          kernel->device_type == k->place.device_type &&
          (kernel->flags & TN_KERNEL_DETERMINISTIC) == 0)
        return false;
    }
  }
  return true;
}

static tn_code tn_test_take_bits(tn_array *const *arrays, size_t n,
                                 size_t first, tn_test_bits *bits) {
  tn_code rc = TN_OK;
  for (size_t i = 0; i < n && rc == TN_OK; ++i) {
    if (arrays[i] == NULL) continue;
    rc = tn_test_gather(arrays[i], &bits->v[first + i]);
    bits->n[first + i] = tn_test_bytes(arrays[i]);
  }
  return rc;
}

/* One forward call, and one backward call if there is a kernel for it. */
static tn_code tn_test_compute_bits(const tn_test_subject *k,
                                    tn_test_subsets *s, tn_test_bits *bits) {
  static tn_test_call call;
  const tn_test_case c = {TN_TEST_DENSE, TN_TEST_NEW, 0, 0};
  const int mark = k->t->n_arrays;
  tn_test_free_bits(bits);
  tn_code rc = tn_test_call_dense(k, &call);
  if (rc == TN_OK) rc = tn_test_take_bits(call.out, k->out.n, 0, bits);
  s->k = k;
  if (rc == TN_OK && s->n > 0)
    rc = tn_test_call_subset(s, &c, s->wanted, &call);
  if (rc == TN_OK && s->n > 0)
    rc = tn_test_take_bits(call.out, k->in.n, TN_TEST_MAX, bits);
  if (rc == TN_UNSUPPORTED && s->n > 0) {
    s->n = 0; /* no kernel takes the backward call */
    rc = TN_OK;
  }
  tn_test_release_to(k->t, mark);
  return rc;
}

/* Compares bits; complains with `when` where they differ. */
static void tn_test_compare_bits(const tn_test_subject *k,
                                 const tn_test_bits *a, const tn_test_bits *b,
                                 const char *when) {
  for (size_t i = 0; i < 2 * TN_TEST_MAX; ++i) {
    const bool forward = i < TN_TEST_MAX;
    const tn_arg *const *args = forward ? k->desc->outputs : k->desc->inputs;
    const uint32_t n = forward ? k->desc->n_outputs : k->desc->n_inputs;
    char text[512];
    if (a->v[i] == NULL || b->v[i] == NULL || a->n[i] != b->n[i] ||
        memcmp(a->v[i], b->v[i], a->n[i]) == 0 ||
        !tn_test_is_deterministic(k, forward ? 0 : 1))
      continue;
    (void)snprintf(text, sizeof text,
                   "%s`%s` has other bits %s, and the kernel says that it is "
                   "deterministic",
                   forward ? "" : "the gradient of ",
                   tn_test_arg(args, n, i % TN_TEST_MAX)->name, when);
    tn_test_complain(k->t, text);
    return;
  }
}

/* ------------------------------------------------------------- other numbers
 */

/* Reverses the numbers of every input: other values that the operator takes as
 * well, or else refuses. */
static void tn_test_reverse(const tn_test_list *list) {
  for (size_t i = 0; i < list->n; ++i) {
    const tn_test_values *v = &list->v[i];
    if (v->v == NULL) continue;
    for (size_t a = 0; a + 1 < v->n - a; ++a) {
      const double kept = v->v[a];
      v->v[a] = v->v[v->n - 1 - a];
      v->v[v->n - 1 - a] = kept;
    }
    tn_test_forget_typed(v);
  }
}

/* Makes the call with other numbers, and ignores the result. */
static void tn_test_call_other(const tn_test_subject *k) {
  static tn_test_call call;
  const int mark = k->t->n_arrays;
  char kept[TN_TEST_TEXT];
  memcpy(kept, k->t->complaint, sizeof kept);
  tn_test_reverse(&k->in);
  (void)tn_test_call_new(k, TN_TEST_DENSE, &call);
  tn_test_forget_failures(k->t);
  tn_test_reverse(&k->in);
  tn_test_release_to(k->t, mark);
  memcpy(k->t->complaint, kept, sizeof kept);
}

/* ------------------------------------------------------------- other threads
 */

/* The same example in the other runtime; NULL if it cannot be made there. */
static tn_test_subject *tn_test_subject_elsewhere(const tn_test_subject *k) {
  tn_test *other = k->t->other;
  tn_operator *op = NULL;
  tn_test_subject *copy = calloc(1, sizeof *copy);
  if (copy == NULL) return NULL;
  *copy =
      (tn_test_subject){.t = other, .example = k->example, .place = k->place};
  memcpy(copy->types, k->types, sizeof copy->types);
  memcpy(copy->types_text, k->types_text, sizeof copy->types_text);
  copy->place_name = k->place_name;
  (void)snprintf(other->title, sizeof other->title, "%s", k->t->title);
  if (tn_operator_get(other->rt, k->op_name, &op) == TN_OK) {
    copy->op = op;
    copy->desc = tn_operator_desc(op);
    copy->op_name = tn_operator_name(op);
    const char *only = k->t->only != NULL ? k->t->only->id : NULL;
    const char *params = k->example->params;
    if (tn_operator_pin(op, only) == TN_OK &&
        tn_params_parse(op, params != NULL ? params : "", &copy->params) ==
            TN_OK &&
        tn_test_subject_read(copy) && tn_test_infer(copy) == TN_OK)
      return copy;
  }
  tn_test_subject_free(copy);
  return NULL;
}

/* The call in a runtime with another number of threads. */
static void tn_test_compare_threads(const tn_test_subject *k,
                                    tn_test_subsets *s,
                                    const tn_test_bits *first) {
  static tn_test_bits bits;
  tn_test_subject *copy =
      k->t->other != NULL ? tn_test_subject_elsewhere(k) : NULL;
  if (copy == NULL) return;
  copy->t->complaint[0] = '\0';
  copy->t->watch = k->t->watch;
  copy->t->n_restored = tn_modes_restored(NULL);
  if (tn_test_compute_bits(copy, s, &bits) == TN_OK)
    tn_test_compare_bits(k, first, &bits, "with another number of threads");
  if (copy->t->complaint[0] != '\0') tn_test_complain(k->t, copy->t->complaint);
  tn_test_free_bits(&bits);
  tn_test_subject_free(copy);
  s->k = k;
}

/* ---------------------------------------------------------------------- leaks
 */

/* Makes equal calls; `*grown` is how many of them kept more memory than the one
 * before. Only asked if `each`: it takes time where much memory is free. */
static tn_code tn_test_call_often(const tn_test_subject *k, tn_test_subsets *s,
                                  bool each, int *grown) {
  static tn_test_bits bits;
  uint64_t before = each ? tn_watch_allocated() : 0;
  tn_code rc = TN_OK;
  *grown = 0;
  for (int i = 0; i < TN_TEST_TIMES && rc == TN_OK; ++i) {
    rc = tn_test_compute_bits(k, s, &bits);
    tn_test_free_bits(&bits);
    if (!each) continue;
    const uint64_t now = tn_watch_allocated();
    *grown += now >= before + TN_TEST_LEAK;
    before = now;
  }
  return rc;
}

/* Whether memory is looked at in this case. The driver of a device leaves so
 * much free memory that each look takes a millisecond: then one case in 16 is
 * drawn. */
static bool tn_test_looks_for_leaks(const tn_test_subject *k) {
  tn_device_entry device;
  bool has_driver = false;
  for (size_t i = 0; tn_device_at(k->t->rt, i, &device) == TN_OK; ++i)
    has_driver |= device.device_type != TN_DEVICE_CPU && device.count > 0;
  return k->place.device_type == TN_DEVICE_CPU &&
         (!has_driver || tn_test_draw(k->t) % 16 == 0);
}

/* Complains if each of several calls keeps more memory than the one before. */
static tn_code tn_test_find_leak(const tn_test_subject *k, tn_test_subsets *s) {
  const int files = tn_watch_count_files();
  char text[160];
  int grown = 0;
  tn_code rc = tn_test_call_often(k, s, false, &grown);
  if (rc == TN_OK) rc = tn_wait_all(k->t->rt);
  const uint64_t before = tn_watch_allocated();
  if (rc == TN_OK) rc = tn_test_call_often(k, s, false, &grown);
  if (rc == TN_OK &&
      tn_watch_allocated() >= before + TN_TEST_TIMES * TN_TEST_LEAK)
    rc = tn_test_call_often(k, s, true, &grown);
  if (grown == TN_TEST_TIMES) {
    (void)snprintf(text, sizeof text,
                   "the kernel leaks: each of %d equal calls left more memory "
                   "allocated",
                   TN_TEST_TIMES);
    tn_test_complain(k->t, text);
  } else if (tn_watch_count_files() >= files + TN_TEST_TIMES) {
    tn_test_complain(k->t, "the kernel leaves descriptors open");
  }
  return rc;
}

/* ------------------------------------------------------------------- the case
 */

static tn_code tn_test_compare_calls(const tn_test_subject *k,
                                     tn_test_subsets *s) {
  static tn_test_bits first, bits;
  tn_code rc = tn_test_compute_bits(k, s, &first);
  if (rc == TN_OK) rc = tn_test_compute_bits(k, s, &bits);
  if (rc == TN_OK) tn_test_compare_bits(k, &first, &bits, "in a second call");
  if (rc == TN_OK) {
    tn_test_call_other(k);
    rc = tn_test_compute_bits(k, s, &bits);
  }
  if (rc == TN_OK)
    tn_test_compare_bits(k, &first, &bits, "after a call with other numbers");
  if (rc == TN_OK && k->place.device_type == TN_DEVICE_CPU)
    tn_test_compare_threads(k, s, &first);
  if (rc == TN_OK && tn_test_looks_for_leaks(k)) rc = tn_test_find_leak(k, s);
  tn_test_free_bits(&first);
  tn_test_free_bits(&bits);
  return rc;
}

/* On other devices than the CPU one call in four is drawn. */
static void tn_test_run_again(const tn_test_subject *k) {
  static tn_test_subsets s;
  const uint64_t drawn =
      tn_child_hash(tn_child_hash(k->t->seed, k->op_name, strlen(k->op_name)),
                    k->types_text, strlen(k->types_text));
  if (k->place.device_type != TN_DEVICE_CPU && (drawn >> 9) % 4 != 0) return;
  if (!tn_test_begin(k->t, "%s %s: %s, %s, dense, again", k->op_name,
                     k->example->name, k->types_text, k->place_name))
    return;
  memset(&s, 0, sizeof s);
  s.k = k;
  if (!tn_test_find_wanted(&s)) s.n = 0;
  const tn_code rc = tn_test_compare_calls(k, &s);
  tn_test_list_free(&s.heads);
  tn_test_list_free(&s.all);
  if (rc != TN_OK)
    tn_test_fail_code(k->t, rc);
  else
    tn_test_pass(k->t);
}

#endif /* TENON_TEST_REPEAT_H_ */
