/* SPDX-License-Identifier: Apache-2.0
 * fake_cudnn_parts.h: descriptors, for the files of fake_cudnn.c that read the
 * parts of a graph.
 */
#ifndef TENON_TESTS_FAKE_CUDNN_PARTS_H_
#define TENON_TESTS_FAKE_CUDNN_PARTS_H_

#include <stdbool.h>
#include <stdint.h>

#include "dnn.h"
#include "fake_cudnn_conv.h"

enum { MOST_ATTRIBUTES = 16, MOST_VALUES = 16 };

typedef struct attribute {
  int name;
  int type;
  int64_t n;
  union {
    int64_t ints[MOST_VALUES];
    void *pointers[MOST_VALUES];
    int words[MOST_VALUES];
    double wide;
    float single;
    bool flag;
  } v;
} attribute;

typedef struct descriptor {
  struct descriptor *next; /* of those that live */
  int type;
  int is_final;
  int n;
  attribute all[MOST_ATTRIBUTES];
  int engine; /* of a configuration, an engine, and a plan */
  struct descriptor *graph;
  int answers[N_ENGINES]; /* of heuristics */
  int n_answers;
} descriptor;

struct cudnnContext {
  int device;
  void *stream;
  int is_busy;
};

enum {
  NOT_INITIALIZED = 1001,
  BAD_PARAM = 2000,
  MISALIGNED = 2003,
  NOT_FINALIZED = 2004,
  SHAPE_MISMATCH = 2008,
  EXECUTION_FAILED = 5000
};

#pragma GCC visibility push(hidden)

/* Counts objects that were created (1) or destroyed (-1), and executed calls.
 */
void fake_count(int objects, int executed);

/* A call uses the handle: checks its device, and that no other thread has it
 * before fake_leave. */
void fake_enter(dnn_handle handle);
void fake_leave(dnn_handle handle);

/* Keeps why for cudnnGetLastErrorString, and returns the status. */
int refuse(int status, const char *why);

/* NULL if it is not set. */
const attribute *find(const descriptor *d, int name);

/* The only element of a present attribute, in its own type. */
int word(const descriptor *d, int name);
const int64_t *ints(const descriptor *d, int name);

/* The descriptor that an attribute names; NULL if it was destroyed. */
const descriptor *part(const descriptor *d, int name);

/* Dense in row-major order is the only layout that is simulated. */
int is_dense(const descriptor *tensor);
int is_virtual(const descriptor *tensor);

/* The pointer of an array by its name; NULL leaves a status. */
void *pointer_of(const descriptor *pack, const descriptor *tensor, int *status);

/* ------------------------------------------------------ fake_cudnn_rules.c */

/* `type` FACTOR means DNN_FLOAT or DNN_DOUBLE. */
enum { FACTOR = 100 };

struct rule {
  int descriptor;
  int attribute;
  int type;
  int required;
};

/* NULL if descriptors of the type have no such attribute. */
const struct rule *rule_of(int type, int name);

/* Whether all attributes are set that have to be. */
int is_complete(const descriptor *d);

/* ------------------------------------------------------- fake_cudnn_norm.c */

enum { MOST_STEPS = 5, MOST_ARRAYS = 16, MOST_ROLES = 14 };

typedef struct norm_array {
  const descriptor *tensor;
  int64_t dims[4]; /* 1 after them */
  int64_t size;
  int is_number;  /* of the host, read when a plan is enqueued */
  int is_written; /* by a step */
  double number;
  void *at; /* NULL: it is never in memory */
} norm_array;

typedef struct norm_step {
  int type;               /* DNN_OP_NORM, DNN_OP_NORM_DATA, DNN_OP_POINTWISE */
  int mode;               /* DNN_POINTWISE_*, of these */
  int arrays[MOST_ROLES]; /* -1: there is none */
} norm_step;

/* Batch norms, and operations on elements. */
typedef struct norm_work {
  int n_steps;
  int n_arrays;
  norm_step steps[MOST_STEPS];
  norm_array arrays[MOST_ARRAYS];
} norm_work;

/* Whether a graph begins with an operation of these. */
int norm_is(const descriptor *first);

/* A status. */
int norm_read(const attribute *ops, norm_work *out);

/* The engine that the heuristics name first, or -1: as on an H200, batch norms
 * have one for a multiple of four channels and images of two dimensions,
 * operations on elements for three dimensions. */
int norm_engine(const norm_work *work);

/* Pointers, and numbers of the host, of a variant pack. A status. */
int norm_bind(norm_work *work, const descriptor *pack);

/* On the fake's thread. */
void norm_run(fake *f, const void *norm_work);

#pragma GCC visibility pop

#endif /* TENON_TESTS_FAKE_CUDNN_PARTS_H_ */
