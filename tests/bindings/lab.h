/* SPDX-License-Identifier: Apache-2.0
 * lab.h: manifests made for a test, in a folder `lab` of its own, which gives
 * the plugin its name. In their text @ means the path of library.c's library.
 */
#ifndef TENON_TESTS_BINDINGS_LAB_H_
#define TENON_TESTS_BINDINGS_LAB_H_

#include "../plugins/host.h"

typedef struct lab {
  tn_runtime *rt;
  char folder[64];
} lab;

/* With these options, or NULL for the default ones. */
void lab_open(lab *l, const tn_options *options);
/* Ends the runtime and removes the folder. */
void lab_close(lab *l);
/* Writes a file; its path is borrowed until the next call. */
const char *lab_file(lab *l, const char *name, const char *text);
/* Writes op.yaml and loads it. */
tn_code lab_load(lab *l, const char *text);

/* `text` with @ replaced; borrowed until the next call. */
const char *lab_text(const char *text);

/* A manifest of `symbol(int32 size, const float *x, float *out)` with the
 * example x [1, 2, 3] -> out [1, 2, 3]; borrowed until the next call. */
const char *lab_simple(const char *symbol);

#endif /* TENON_TESTS_BINDINGS_LAB_H_ */
