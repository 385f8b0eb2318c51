/* SPDX-License-Identifier: Apache-2.0
 * trial.h: computes the examples of a manifest with its built plugin. That is
 * foreign code, so it runs in a child process (core/base/child.h): a kernel
 * that crashes or hangs is a result like any other.
 *
 *   trial.c        starts children and reads their records
 *   trial_value.c  compares and prints values
 *   trial_child.h  the files of the child
 */
#ifndef OPGEN_TRIAL_H_
#define OPGEN_TRIAL_H_

#include "manifest.h"

/* One computed array: an output, or the gradient of an input. */
typedef struct trial_value {
  struct trial_value *next;
  const char *name;
  bool grad;
  uint32_t number; /* number among those of the same name */
  tn_dtype dtype;
  int32_t ndim;
  int64_t shape[TN_MAX_NDIM];
  double *v;
  size_t n;
} trial_value;

/* A fault of a plugin other than wrong values. */
typedef struct trial_finding {
  struct trial_finding *next;
  const char *code; /* constant, with an explanation by `opgen explain` */
  const char *text;
} trial_finding;

/* One example. */
typedef struct trial {
  const char *error; /* reason of a failure, or NULL */
  bool ended;        /* it was computed, or ended its process */
  trial_value *values;
  trial_finding *findings;
} trial;

/* All examples of a plugin. */
typedef struct trials {
  tn__arena arena;
  trial **v;           /* per operator, per example */
  const char *refused; /* reason why the plugin was not loaded, or NULL */
  bool died; /* loading it ended the process; `refused` describes the end */
  trial_finding *findings; /* about the plugin as a whole */
} trials;

/* The built plugin, or plugin.yaml of bindings, and the arguments of `--with`.
 * Built plugins and manifests of bindings among these have operators that
 * gradients may call and kernels may implement; the others only describe
 * operators. */
typedef struct trial_files {
  const char *path;
  const char *const *with;
  size_t n_with;
  int64_t seconds; /* time limit of one child; 0: TRIAL_SECONDS */
  bool strict;     /* searches for findings, with several calls per example */
} trial_files;

enum { TRIAL_SECONDS = 60 };

/* Loads the plugin and computes, if it was built from these manifests;
 * otherwise it is refused. False, after a message, only if the attempt itself
 * failed: no memory, no process. Deinit in any case. */
bool trials_init(trials *t, const tnm_plugin *plugin, const trial_files *files);
/* Loads and unloads the plugin without computing: for `refused` and `findings`.
 * The same results. */
bool trials_load(trials *t, const trial_files *files);
void trials_deinit(trials *t);

/* Tests whether a value is the stated one of the example; true if none is
 * stated. */
bool trial_agrees(const tnm_example *example, const trial_value *value);
/* The largest distance of an element from the stated one, in the measure of
 * `tol`: relative, and absolute near 0. Infinite for other numbers of elements.
 */
double trial_distance(const tnm_example *example, const trial_value *value);

/* Whether two numbers count as equal in results of this type. */
bool trial_is_near(const tnm_example *example, tn_dtype dtype, double want,
                   double got);

/* Prints a value in the syntax of manifests: "[[1, 2], [3, 4]]". */
void trial_print(tn__buf *out, const trial_value *value);
/* Prints the values of an example, in the same form. */
void trial_print_data(tn__buf *out, const tnm_data *data);

#endif /* OPGEN_TRIAL_H_ */
