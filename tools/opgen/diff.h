/* SPDX-License-Identifier: Apache-2.0
 * diff.h: shared by the files of `opgen diff`. docs/reference/diff.md states
 * every rule with its reason.
 *
 *   cmd_diff.c      the two sides, the rows, the verdict
 *   diff_load.c     manifests, built plugins, and revisions of git
 *   diff_match.c    equal items of two lists, and moved ones
 *   diff_names.c    renamed items, also inside of formulas
 *   diff_params.c   parameters
 *   diff_operands.c types, inputs, outputs, states, shapes, requirements
 *   diff_op.c       operators, their gradients and kernels
 */
#ifndef OPGEN_DIFF_H_
#define OPGEN_DIFF_H_

#include "opgen.h"

/* The consequence of a change for users of OLD. */
enum {
  DIFF_OK = 0,     /* an addition; everything existing is unchanged */
  DIFF_NOTE = 1,   /* a mistake of the author: nothing breaks */
  DIFF_DOC = 2,    /* only texts for people */
  DIFF_SOURCE = 3, /* a name or a call is refused, with a message */
  DIFF_ABI = 4,    /* code compiled against OLD misreads NEW */
  DIFF_MODEL = 5   /* a saved graph computes another result, or none */
};

typedef struct diff_row {
  const char *op; /* full name without interface */
  int kind;
  const char *text;
  const char *place; /* "convolution.yaml:10:12", or NULL */
} diff_row;

/* One side: tables, and their manifests, if there are any. */
typedef struct diff_side {
  const opgen_args *args; /* options for reading manifests */
  const char *path;
  const tn_plugin *tables;
  tnm_plugin *manifests;
  tn__arena arena; /* for tables without manifests */
} diff_side;

typedef struct diff_rename diff_rename;

typedef struct diff {
  tn__arena *arena;
  tn__vec rows; /* diff_row * */
  const diff_side *old;
  const diff_side *new;
  /* The current operator. */
  const char *name;
  const tn_op *a;
  const tn_op *b;
  const tnm_operator *written; /* NEW's manifest of it, or NULL */
  const tnm_operator *was;     /* the operator in OLD */
  bool excused;                /* its interface was raised */
  const diff_rename *renames;  /* of its parameters and operands */
} diff;

/* Reads a side; false after messages. Deinit also after a failure. */
bool diff_side_init(diff_side *side, const opgen_args *args, const char *path);
/* Adds the kernels of the companion to a side's tables. Built files contain the
 * kernels of one plugin only, so this is for two sides of manifests. False if
 * memory ran out. */
bool diff_side_add_companion(diff_side *side);
void diff_side_deinit(diff_side *side);

/* Adds a row about the operator, at the place of `path` (tnm_find_place), which
 * may be NULL. */
void diff_add(diff *d, int kind, const char *const *path, const char *format,
              ...) TN_PRINTF(4, 5);
#define DIFF_AT(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ----------------------------------------------------------------- matching */

enum { DIFF_GONE = -1 };

/* The matching items of two lists of names. */
typedef struct diff_match {
  uint32_t n_old;
  uint32_t n_new;
  int64_t *to_new; /* index in NEW, or DIFF_GONE */
  int64_t *to_old;
  bool *moved; /* by old index: it changed its order */
  /* Items without a meaningful order; set between init and finish. */
  bool *loose_old;
  bool *loose_new;
} diff_match;

/* `old` and `new` contain names. A removed item and a new one in the same place
 * match if `renamed` says so. False if memory ran out. */
typedef struct diff_list {
  const char *const *names;
  uint32_t n;
} diff_list;
bool diff_match_init(diff *d, diff_match *m, diff_list old, diff_list new);
/* Matches a removed item with a new one. */
void diff_match_pair(diff_match *m, uint32_t old, uint32_t new);
/* Finds moved items; after the last pair. False if memory ran out. */
bool diff_match_finish(diff *d, diff_match *m);
/* Tests whether all items that existed before precede this new one. */
bool diff_is_last(const diff_match *m, uint32_t new);

/* Tests for equal texts; NULL is one. */
bool diff_is_same(const char *a, const char *b);
/* `text`, or `otherwise` if it is NULL. */
const char *diff_text(const char *text, const char *otherwise);
/* "f16 f32" */
const char *diff_dtypes(diff *d, uint64_t set);

/* Records a new name of a parameter or operand. */
void diff_rename_add(diff *d, const char *old, const char *new);
/* The name in NEW of a name of OLD; NULL for NULL. */
const char *diff_new_name(const diff *d, const char *old);
/* Tests whether two formulas are equal except for blanks and renamed items. */
bool diff_is_same_formula(const diff *d, const char *old, const char *new);

/* `deprecated` and `since` of any item; `what` names it. */
typedef struct diff_life {
  uint32_t since;
  uint32_t deprecated;
  const char *use;
} diff_life;
void diff_lives(diff *d, const char *const *path, const char *what,
                diff_life old, diff_life new);
/* Checks that `since` of a new item is right; adds a note otherwise. */
bool diff_since(diff *d, const char *const *path, const char *what,
                uint32_t since);

void diff_params(diff *d);
void diff_operands(diff *d);
void diff_operators(diff *d);

#endif /* OPGEN_DIFF_H_ */
