/* SPDX-License-Identifier: Apache-2.0
 * diag.h: what diag.c keeps and print.c shows. For these two and quoted.c.
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

/* What follows a message: a note, a help, or a second place. */
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
  tn__vec sorted; /* the same in order of place */
  tn__vec quoted; /* of quoted.c */
  size_t errors;
  size_t warnings;
  bool failed;
};

const tnm_file *tnm_diags_get_file(const tnm_diags *diags, uint32_t index);

/* The place in the file of what was found by counting characters of a text that
 * tnm_diags_quoted was told of; of all else as it is. */
tnm_pos tnm_diags_in_file(const tnm_diags *diags, tnm_pos pos);

/* Order of file, line and column. */
int tnm_pos_compare(tnm_pos a, tnm_pos b);

#endif /* TENON_MANIFEST_DIAG_H_ */
