/* SPDX-License-Identifier: Apache-2.0
 * test/kernel.h: a part of test.h: the kernels of an operator: whether one is
 * for a device that is there, and the cases of kernels for operators of other
 * plugins, one kernel at a time.
 */
#ifndef TENON_TEST_KERNEL_H_
#define TENON_TEST_KERNEL_H_

/* Whether the runtime has a device of the type. */
static bool tn_test_has_device(const tn_test *t, int32_t device_type) {
  tn_device_entry device;
  for (size_t i = 0; tn_device_at(t->rt, i, &device) == TN_OK; ++i)
    if (device.device_type == device_type && device.count > 0) return true;
  return false;
}

/* Whether a loaded kernel of the operator is for a device that is there. */
static bool tn_test_has_kernel(const tn_test *t, const tn_operator *op) {
  tn_plugin_info info;
  for (size_t i = 0; tn_plugin_at(t->rt, i, &info) == TN_OK; ++i) {
    for (uint32_t j = 0; j < info.plugin->n_kernels; ++j) {
      const tn_kernel *kernel = info.plugin->kernels[j];
      if (strcmp(kernel->op, tn_operator_name(op)) == 0 &&
          tn_test_has_device(t, kernel->device_type))
        return true;
    }
  }
  return false;
}

/* ------------------------------------------------------------- pinned kernels
 */

/* The kernel of that id, of one pass or the other; NULL if there is none. */
static const tn_kernel *tn_test_find_kernel(const tn_test *t, const char *id,
                                            uint32_t pass) {
  tn_plugin_info info;
  for (size_t i = 0; tn_plugin_at(t->rt, i, &info) == TN_OK; ++i)
    for (uint32_t j = 0; j < info.plugin->n_kernels; ++j)
      if (info.plugin->kernels[j]->pass == pass &&
          strcmp(info.plugin->kernels[j]->id, id) == 0)
        return info.plugin->kernels[j];
  return NULL;
}

/* A kernel that no call was given to proves nothing; of two passes one may be
 * for calls that examples do not make, as those of training if none says so. */
static void tn_test_expect_calls(tn_test *t, const char *op) {
  static const char *const names[] = {"forward", "backward"};
  bool took = false;
  for (uint32_t pass = 0; pass < 2; ++pass)
    took |= t->n_calls[pass] > 0 &&
            tn_test_find_kernel(t, t->only->id, pass) != NULL;
  for (uint32_t pass = 0; pass < 2; ++pass) {
    char why[sizeof t->without + 256];
    if (t->n_calls[pass] > 0 ||
        tn_test_find_kernel(t, t->only->id, pass) == NULL)
      continue;
    (void)snprintf(why, sizeof why,
                   "this kernel took no %s call of any example: write "
                   "`examples` beside it, with calls that it takes; the last "
                   "one was not computed because: %s",
                   names[pass], t->without[0] != '\0' ? t->without : "?");
    (void)tn_test_begin(t, "%s: an example that runs %s", op, names[pass]);
    if (took)
      tn_test_skip(t, why);
    else
      tn_test_fail(t, "%s", why);
  }
}

/* The examples, with this kernel alone for the passes that it has. */
static void tn_test_run_pinned(tn_test *t, tn_operator *op,
                               const tn_test_operator *which) {
  const int n_failed = t->n_failed, n_to_come = t->n_to_come;
  t->without[0] = '\0';
  t->n_calls[0] = t->n_calls[1] = 0;
  t->is_batch_invariant = which->batch_invariant != 0;
  for (size_t i = 0; i < which->n_examples; ++i)
    tn_test_run_example(t, op, &which->examples[i]);
  if (t->only->device_type == TN_DEVICE_CPU) tn_test_run_gradient(t, op, which);
  if (t->n_failed > n_failed || t->n_to_come > n_to_come) return;
  tn_test_expect_calls(t, which->name);
}

/* Whether its plugin withdrew the kernel, and why. Hosts are told in a line of
 * the explanation: "  - ID ...  | withdrawn: WHY". */
static bool tn_test_is_withdrawn(tn_operator *op, const char *id, char *why,
                                 size_t size) {
  static const char begin[] = "  - ", mark[] = "| withdrawn: ";
  const size_t n_begin = strlen(begin), n_id = strlen(id);
  tn_text *text = NULL;
  bool found = false;
  if (tn_operator_explain(op, NULL, NULL, &text) != TN_OK) return false;
  for (const char *line = tn_text_get(text); *line != '\0' && !found;) {
    const size_t n = strcspn(line, "\n");
    const char *at = strstr(line, mark);
    found = at != NULL && at < line + n && n > n_begin + n_id &&
            strncmp(line, begin, n_begin) == 0 &&
            strncmp(line + n_begin, id, n_id) == 0 &&
            line[n_begin + n_id] == ' ';
    if (found)
      (void)snprintf(why, size, "its plugin withdrew it: %.*s",
                     (int)(line + n - at - (ptrdiff_t)strlen(mark)),
                     at + strlen(mark));
    line += n + (line[n] == '\n' ? 1 : 0);
  }
  tn_text_release(text);
  return found;
}

static void tn_test_run_kernel(tn_test *t, tn_operator *op,
                               const tn_test_operator *which, const char *id) {
  const tn_kernel *kernel = tn_test_find_kernel(t, id, TN_PASS_FORWARD);
  char why[512];
  if (kernel == NULL) kernel = tn_test_find_kernel(t, id, TN_PASS_BACKWARD);
  t->only = kernel;
  (void)tn_test_begin(t, "%s", which->name);
  if (kernel == NULL)
    tn_test_fail(t,
                 "no plugin on the command line has the kernel %s: is this "
                 "one there, as it was built last?",
                 id);
  else if (which->n_examples == 0)
    tn_test_skip(t,
                 "no example of it is known: say `opgen generate --tests "
                 "--with FOLDER`, the folder of its manifests, or write "
                 "`examples` beside the kernel");
  else if (!tn_test_has_device(t, kernel->device_type))
    tn_test_skip(t, "there is no device for it here");
  else if (tn_test_is_withdrawn(op, id, why, sizeof why))
    tn_test_skip(t, why);
  else if (tn_operator_pin(op, id) != TN_OK)
    tn_test_fail(t, "%s", tn_error_text());
  else
    tn_test_run_pinned(t, op, which);
  t->only = NULL;
  if (tn_operator_pin(op, NULL) != TN_OK) tn_test_fail_code(t, TN_INTERNAL);
}

#endif /* TENON_TEST_KERNEL_H_ */
