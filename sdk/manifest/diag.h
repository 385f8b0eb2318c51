/* SPDX-License-Identifier: Apache-2.0
 * diag.h: the data of diag.c that print.c shows. For these two and quoted.c.
 */
#ifndef TENON_MANIFEST_DIAG_H_
#define TENON_MANIFEST_DIAG_H_

#include "front.h"

typedef struct tnm_file {
  const char *name;
  const char *text;
  size_t n;
} tnm_file;

enum { TNM_NOTE = 1, TNM_HELP = 2, TNM_ALSO = 3 };

/* An addition to a message: a note, a help line, or a second place in the file.
 */
typedef struct tnm_extra {
  struct tnm_extra *next;
  int kind;
  tnm_pos pos;
  const char *text;
} tnm_extra;

typedef struct tnm_message {
  tnm_diag_spec spec;
  const char *text;
  tnm_extra *extras;
} tnm_message;

struct tnm_diags {
  const tn__env *env;
  tn__arena arena;
  tn__vec files;  /* tnm_file * */
  tn__vec by_id;  /* tnm_message *, in order of arrival */
  tn__vec sorted; /* the messages of `by_id` in order of place */
  tn__vec
      quoted; /* texts in quotes with their positions; only quoted.c uses it */
  size_t errors;
  size_t warnings;
  bool failed;
};

const tnm_file *tnm_diags_get_file(const tnm_diags *diags, uint32_t index);

/* Converts a position to one in the file. A position within a text of
 * tnm_diags_add_quoted counts the characters of that text, without escapes; it
 * becomes a position in the file. Other positions are returned unchanged. */
tnm_pos tnm_diags_file_pos(const tnm_diags *diags, tnm_pos pos);

/* Compares by file, line and column. */
int tnm_pos_compare(tnm_pos a, tnm_pos b);

#endif /* TENON_MANIFEST_DIAG_H_ */
