/* SPDX-License-Identifier: Apache-2.0
 * travelling_error.h: errors that travel along variables. For the folders of
 * the engine.
 */
#ifndef TENON_VARIABLES_TRAVELLING_ERROR_H_
#define TENON_VARIABLES_TRAVELLING_ERROR_H_

#include "job.h"

/* A failure. Reference counted; immutable. */
typedef struct tn__error {
  const tn__env *env;
  _Atomic int64_t n_owners;
  tn_code code;
  uint32_t reserved;
  struct tn__error *next; /* in the engine's list of unreported errors */
  char text[];
} tn__error;

/* Creates an error with the thread's error text. Never fails: without memory it
 * returns the engine's reserved error, which reports the lack of memory. */
tn__error *tn__error_create(tn__engine *engine, tn_code code);
/* Creates the reserved error of the engine. */
tn_code tn__error_init(tn__engine *engine);
void tn__error_deinit(tn__engine *engine);
/* The next tn__wait_all reports it. */
void tn__error_announce(tn__engine *engine, tn__error *error);
/* The same for a failure that several calls may announce. It is reported once
 * if no other failure came in between. */
void tn__error_announce_again(tn__engine *engine, tn__error *error);
/* Returns the unreported errors, oldest first, and their number. The caller
 * owns them. */
tn__error *tn__error_collect(tn__engine *engine, uint64_t *n);
/* Puts the name of the failed function before the thread's error text, unless
 * the text begins with the name and a ':' or ' '. Returns the code. */
tn_code tn__error_add_name(tn_code code, const char *name);
/* Creates an error with the text "`name` was not run: " and the text of
 * `cause`. */
tn__error *tn__error_derive(tn__engine *engine, tn__error *cause,
                            const char *name);
/* Creates the error of a function that an abandoned engine does not run, and
 * sets the thread's error text. `name` may be NULL. */
tn__error *tn__error_refuse(tn__engine *engine, const char *name);
tn__error *tn__error_retain(tn__error *error);
void tn__error_release(tn__error *error);
/* Puts the error on a variable (NULL clears) and adds an owner. The caller
 * holds the writer's grant of the variable. */
void tn__error_put(tn__var *var, tn__error *error);
/* Sets the thread's error text; returns the code. */
tn_code tn__error_set_text(const tn__error *error);

#endif /* TENON_VARIABLES_TRAVELLING_ERROR_H_ */
