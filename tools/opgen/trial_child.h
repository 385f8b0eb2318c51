/* SPDX-License-Identifier: Apache-2.0
 * trial_child.h: the child that runs the code of a plugin. It answers in
 * records (core/base/child.h); trial.c reads them.
 *
 *   trial_child.c    the two bodies of a child, and its records
 *   trial_load.c     loads the plugin and the plugins that it needs
 *   trial_call.c     the calls of one example
 *   trial_compare.c  the same example again: equal results
 *   trial_memory.c   arrays between inaccessible pages
 *   trial_state.c    the state of the process, before and after a call
 */
#ifndef OPGEN_TRIAL_CHILD_H_
#define OPGEN_TRIAL_CHILD_H_

#include "child.h"
#include "trial.h"

enum {                  /* kinds of records */
       TRIAL_BEGIN = 1, /* "OPERATOR EXAMPLE", two numbers: an example begins */
       TRIAL_VALUE = 2, /* "o|g NAME TYPE RANK DIMENSIONS VALUES" */
       TRIAL_FAILURE = 3, /* "REASON": the example failed, or all did */
       TRIAL_FINDING = 4, /* "CODE TEXT" */
       TRIAL_LOG = 5,     /* "LEVEL LINE" */
       TRIAL_STOP = 6,    /* the process ends after a finding */
       TRIAL_DONE = 7,    /* the example ended */
       TRIAL_CALL = 8     /* "NAME" of the next call */
};

/* ----------------------------------------------------------- the two bodies */

/* Computes the examples from number `first` on, counted through all operators.
 */
void trial_child(const tnm_plugin *plugin, const trial_files *files,
                 size_t first, tn__answer *answer);

/* Loads and unloads the plugin. */
void trial_child_load(const trial_files *files, tn__answer *answer);

/* Loads the built plugin, the plugins of operators that its gradients call, and
 * those of operators that its kernels implement: from `--with` or from the
 * installed ones. `quiet` is set while the log is not needed. */
tn_code trial_load(tn_runtime *rt, const tnm_plugin *plugin,
                   const trial_files *files, bool *quiet);
/* Loads only the plugin. */
tn_code trial_load_one(tn_runtime *rt, const char *path);

/* ------------------------------------------------------------------ records */

/* The child has one answer; these functions write to it. */
void trial_write(uint32_t kind, const char *format, ...) TN_PRINTF(2, 3);
bool trial_write_bytes(uint32_t kind, const void *bytes, size_t n);
/* Writes a finding. In an example, the text begins with the name of the call,
 * and only the first finding of each code is written. */
void trial_find(const char *code, const char *format, ...) TN_PRINTF(2, 3);
/* Sets the name of the next call: "forward". Borrowed until the next name. */
void trial_name_call(const char *name);

/* -------------------------------------------------------------- one example */

enum { MAX_OPERANDS = 64 };

/* The turns of an example. */
typedef enum trial_turn {
  TURN_PLAIN, /* arrays of the host; its values are reported */
  TURN_END,   /* memory ends at an inaccessible page */
  TURN_START, /* memory begins after one */
  TURN_AGAIN, /* the same as the first turn */
  N_TURNS
} trial_turn;

/* One result of the first turn. */
typedef struct trial_result {
  void *bytes;    /* in the type of the array; NULL: no result */
  double *values; /* the same as numbers */
  size_t n;
  size_t n_bytes;
  tn_dtype dtype;
  int32_t ndim;
  int64_t shape[TN_MAX_NDIM];
} trial_result;

/* The state of one example. Arrays are released after each turn. */
typedef struct trial_run {
  tn_runtime *rt;
  tn_operator *host;
  const tn_op *op;
  const tnm_operator *manifest;
  const tnm_example *example;
  const tn_kernel *kernel; /* of another plugin's operator, pinned; or NULL */
  tn_dtype type;           /* of the first type variable, or TN_DTYPE_UNKNOWN */
  bool strict;
  bool has_gradient; /* the first turn computed it */
  trial_turn turn;
  tn_params *params;
  uint32_t n_in; /* without states */
  uint32_t n_out;
  tn_array *in[MAX_OPERANDS]; /* and states after them */
  tn_array *out[MAX_OPERANDS];
  tn_array *heads[MAX_OPERANDS];
  tn_array *grads[MAX_OPERANDS];
  trial_result outputs[MAX_OPERANDS]; /* of the first turn */
  trial_result gradients[MAX_OPERANDS];
} trial_run;

/* Computes the example, in every turn if the run is strict. */
tn_code trial_compute(trial_run *r);

/* Keeps a result of the first turn. */
tn_code trial_keep(trial_result *result, tn_array *array);
/* Compares an array with it; a difference is a finding of this code. */
tn_code trial_compare(const trial_run *r, const trial_result *result,
                      const char *name, tn_array *array, const char *code);
void trial_result_free(trial_result *result);

/* ----------------------------------------------------------- guarded memory */

/* A new array. */
typedef struct trial_spec {
  const char *name; /* for messages; borrowed */
  tn_dtype dtype;
  int32_t ndim;
  const int64_t *shape;
  const void *bytes; /* its elements, and then it is read-only; or NULL */
  bool at_end;       /* it ends at the page, otherwise it begins after one */
} trial_spec;

/* An array in pages of its own, which the caller releases before
 * trial_memory_close. */
tn_code trial_memory_array(tn_runtime *rt, const trial_spec *spec,
                           tn_array **out);
/* Makes all arrays so far read-only. */
void trial_memory_protect(void);
/* Checks the bytes around the writable arrays. */
void trial_memory_check(void);
/* The number of arrays; and the release of those from number `first` on. */
size_t trial_memory_count(void);
void trial_memory_close(size_t first);
/* Reports an access to an inaccessible page as a finding. */
bool trial_memory_catch_faults(void);

/* ----------------------------------------------------- state of the process */

/* Sends printed text to a file in memory. */
bool trial_state_open(void);
/* Copies the state of the process. */
void trial_state_note(void);
/* Reports each difference as a finding. The first turn may open files. */
void trial_state_compare(bool may_open);

#endif /* OPGEN_TRIAL_CHILD_H_ */
