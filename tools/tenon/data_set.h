/* SPDX-License-Identifier: Apache-2.0
 * data_set.h: the parts of `tenon data`.
 *
 * files: cmd_data.c       its words; `list` and `check`
 *        data_pack.c      `pack`: examples become files of records
 *        data_examples.c  files and labels, of a folder or a list
 */
#ifndef TENON_DATA_SET_H_
#define TENON_DATA_SET_H_

#include "tenon/data.h"
#include "tenon_tool.h"

/* A file with its labels. */
typedef struct example {
  char *path; /* to open */
  uint64_t id;
  size_t first_label; /* in examples.labels */
  size_t n_labels;
} example;

/* A folder of files with one label. */
typedef struct example_class {
  char *folder; /* below the packed folder; "." is that one */
  size_t n;     /* files */
} example_class;

/* Zero-initialised it is empty. */
typedef struct examples {
  example *list;
  size_t n;
  size_t capacity;
  float *labels; /* of all examples */
  size_t n_labels;
  size_t label_capacity;
  example_class *classes; /* the number of a class is its label */
  size_t n_classes;
  size_t class_capacity;
} examples;

/* The files below the folder `path` that end in one of args->suffixes, or all.
 * Each folder with files is a class. Names that begin with a dot are left out.
 */
bool examples_find(examples *e, const char *path, const arguments *args,
                   text *why);
/* The files that the lines of args->list name, relative to the folder
 * `path`. */
bool examples_read(examples *e, const char *path, const arguments *args,
                   text *why);
/* Whether examples_find would select a file of this name. */
bool examples_select(const char *name, const arguments *args);
/* Changes the order to one that depends on `seed` only. */
void examples_shuffle(examples *e, uint64_t seed);
void examples_deinit(examples *e);

/* Makes room for one more element of `size` bytes in a list of `n`. Returns the
 * list, which may have moved; NULL without memory, and the old one is valid. */
void *list_grow(void *list, size_t n, size_t *capacity, size_t size);

/* `tenon data pack`: as a command. */
int data_pack(const arguments *args, text *out, text *why);

#endif /* TENON_DATA_SET_H_ */
