/* SPDX-License-Identifier: Apache-2.0
 * trial.h: the examples of a manifest, computed by its built plugin. That is
 * somebody's code, so it runs in a child process: a kernel that crashes or
 * hangs is a result like any other.
 */
#ifndef OPGEN_TRIAL_H_
#define OPGEN_TRIAL_H_

#include "manifest.h"

/* One array that came out: an output, or the gradient of an input. */
typedef struct trial_value {
  struct trial_value *next;
  const char *name;
  bool grad;
  uint32_t number; /* among those of the same name */
  tn_dtype dtype;
  int32_t ndim;
  int64_t shape[TN_MAX_NDIM];
  double *v;
  size_t n;
} trial_value;

/* One example. */
typedef struct trial {
  const char *error; /* why nothing came out, or NULL */
  trial_value *values;
} trial;

/* All examples of a plugin. */
typedef struct trials {
  tn__arena arena;
  trial **v;           /* per operator, per example */
  const char *refused; /* why the plugin was not even loaded, or NULL */
} trials;

/* The built plugin, or plugin.yaml of bindings, and what stands behind
 * `--with`: of these, built plugins and manifests of bindings have operators
 * that gradients may call and kernels be for, others only describe some. */
typedef struct trial_files {
  const char *path;
  const char *const *with;
  size_t n_with;
} trial_files;

/* Loads the plugin and computes, if it was built from these manifests;
 * otherwise it is refused. False, after a message, only if the attempt itself
 * failed: no memory, no process. Deinit in any case. */
bool trials_init(trials *t, const tnm_plugin *plugin, const trial_files *files);
void trials_deinit(trials *t);

/* Whether a value is what the example states; true if it states nothing. */
bool trial_agrees(const tnm_example *example, const trial_value *value);
/* The largest distance of an element from the stated one, in the measure of
 * `tol`: relative, and absolute near 0. Infinite for other numbers of elements.
 */
double trial_distance(const tnm_example *example, const trial_value *value);

/* A value as manifests write it: "[[1, 2], [3, 4]]". */
void trial_print(tn__buf *out, const trial_value *value);
/* What an example states, in the same form. */
void trial_print_data(tn__buf *out, const tnm_data *data);

#endif /* OPGEN_TRIAL_H_ */
