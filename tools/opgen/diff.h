/* SPDX-License-Identifier: Apache-2.0
 * diff.h: what the files of `opgen diff` share. docs/diff.md states every rule
 * with its reason.
 *
 * files: cmd_diff.c      the two sides, the rows, the verdict
 *        diff_load.c     manifests, built plugins, and revisions of git
 *        diff_match.c    which items of two lists are the same, and which moved
 *        diff_names.c    what was renamed, in the formulas too
 *        diff_params.c   parameters
 *        diff_operands.c types, inputs, outputs, states, shapes, requirements
 *        diff_op.c       operators, their gradients and kernels
 */
#ifndef OPGEN_DIFF_H_
#define OPGEN_DIFF_H_

#include "opgen.h"

/* What a change does to those who use OLD. */
enum {
  DIFF_OK = 0,     /* more than before; nothing that was there changed */
  DIFF_NOTE = 1,   /* a slip of the author's: nothing breaks */
  DIFF_DOC = 2,    /* what people read */
  DIFF_SOURCE = 3, /* a name or a call is refused, with a message */
  DIFF_ABI = 4,    /* what was compiled against OLD misreads NEW */
  DIFF_MODEL = 5   /* a saved graph computes something else, or not at all */
};

typedef struct diff_row {
  const char *op; /* full name without interface */
  int kind;
  const char *text;
  const char *place; /* "convolution.yaml:10:12", or NULL */
} diff_row;

/* One side: tables, and the manifests that they are from, if they are. */
typedef struct diff_side {
  const opgen_args *args; /* how manifests are read */
  const char *path;
  const tn_plugin *tables;
  tnm_plugin *manifests;
  tn__arena arena; /* of tables without manifests */
} diff_side;

typedef struct diff_rename diff_rename;

typedef struct diff {
  tn__arena *arena;
  tn__vec rows; /* diff_row * */
  const diff_side *old;
  const diff_side *new;
  /* The operator that is being compared. */
  const char *name;
  const tn_op *a;
  const tn_op *b;
  const tnm_operator *written; /* NEW's manifest of it, or NULL */
  const tnm_operator *was;     /* OLD's */
  bool excused;                /* its interface was raised */
  const diff_rename *renames;  /* of its parameters and operands */
} diff;

/* Reads a side; false after messages. Deinit also after a failure. */
bool diff_side_init(diff_side *side, const opgen_args *args, const char *path);
/* Adds the kernels of the companion to a side's tables. Built files hold those
 * of one plugin only, so it is for two sides of manifests. False if memory ran
 * out. */
bool diff_side_whole(diff_side *side);
void diff_side_deinit(diff_side *side);

/* Adds a row about the operator, at the place of `path` (tnm_place), which may
 * be NULL. */
void diff_add(diff *d, int kind, const char *const *path, const char *format,
              ...) TN_PRINTF(4, 5);
#define DIFF_AT(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ------------------------------------------------------------------ matching
 */

enum { DIFF_GONE = -1 };

/* Which items of two lists of names are the same. */
typedef struct diff_match {
  uint32_t n_old;
  uint32_t n_new;
  int64_t *to_new; /* index in NEW, or DIFF_GONE */
  int64_t *to_old;
  bool *moved; /* by old index: it passed another one */
  /* Items whose place means nothing; set between init and finish. */
  bool *loose_old;
  bool *loose_new;
} diff_match;

/* `old` and `new` hold names; an item that is gone and one that is new at the
 * same place are the same renamed where `renamed` says so. False if memory ran
 * out. */
typedef struct diff_list {
  const char *const *names;
  uint32_t n;
} diff_list;
bool diff_match_init(diff *d, diff_match *m, diff_list old, diff_list new);
/* Pairs up what is gone and what is new. */
void diff_match_pair(diff_match *m, uint32_t old, uint32_t new);
/* Finds what moved; after the last pair. False if memory ran out. */
bool diff_match_finish(diff *d, diff_match *m);
/* Whether everything that was there before stands before this new item. */
bool diff_is_last(const diff_match *m, uint32_t new);

/* Equal texts, NULL being one. */
bool diff_same(const char *a, const char *b);
/* A text that is not NULL. */
const char *diff_text(const char *text, const char *otherwise);
/* "f16 f32" */
const char *diff_dtypes(diff *d, uint64_t set);

/* Notes that a parameter or operand has another name now. */
void diff_rename_add(diff *d, const char *old, const char *new);
/* What a name of OLD is in NEW; NULL of NULL. */
const char *diff_renamed(const diff *d, const char *old);
/* Whether two formulas are the same, but for blanks and what was renamed. */
bool diff_same_formula(const diff *d, const char *old, const char *new);

/* `deprecated` and `since` of anything; `what` names it. */
typedef struct diff_life {
  uint32_t since;
  uint32_t deprecated;
  const char *use;
} diff_life;
void diff_lives(diff *d, const char *const *path, const char *what,
                diff_life old, diff_life new);
/* Whether `since` of something new says what is true; a note otherwise. */
bool diff_since(diff *d, const char *const *path, const char *what,
                uint32_t since);

void diff_params(diff *d);
void diff_operands(diff *d);
void diff_operators(diff *d);

#endif /* OPGEN_DIFF_H_ */
