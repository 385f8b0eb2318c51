/* SPDX-License-Identifier: Apache-2.0
 * travelling_error.c: errors that travel along variables. A failing function
 * creates one error, and every variable that carries it owns a count. An
 * operation that does not run because of an error puts its own name before the
 * text.
 */
#include <string.h>

#include "engine_state.h"
#include "travelling_error.h"
#include "variable.h"

enum {
  /* A longer text is passed on unchanged: a chain of a million functions must
   * not cost a million texts. */
  TEXT_MAX = 1024,
  UNREPORTED_MAX = 16 /* errors with a text that is kept for tn__wait_all */
};

static tn__error *create_error(const tn__env *env, tn_code code,
                               const char *text) {
  const size_t n = strlen(text) + 1;
  tn__error *error = tn__alloc(env, sizeof *error + n);
  if (error == NULL) return NULL;
  *error = (tn__error){.env = env, .n_owners = 1, .code = code};
  memcpy(error->text, text, n);
  return error;
}

tn_code tn__error_init(tn__engine *engine) {
  engine->no_memory =
      create_error(engine->env, TN_OUT_OF_MEMORY,
                   "a function failed, and there was no memory left "
                   "to keep its message");
  engine->unreported_end = &engine->unreported;
  if (engine->no_memory == NULL)
    return tn__fail_memory(sizeof(tn__error), "an error kept in reserve");
  (void)pthread_mutex_init(&engine->error_lock, NULL);
  return TN_OK;
}

void tn__error_deinit(tn__engine *engine) {
  uint64_t n;
  if (engine->no_memory == NULL) return;
  for (tn__error *each = tn__error_collect(engine, &n); each != NULL;) {
    tn__error *next = each->next;
    tn__error_release(each);
    each = next;
  }
  tn__error_release(engine->no_memory);
  (void)pthread_mutex_destroy(&engine->error_lock);
}

tn__error *tn__error_create(tn__engine *engine, tn_code code) {
  tn__error *error = create_error(engine->env, code, tn_error_text());
  return error != NULL ? error : tn__error_retain(engine->no_memory);
}

/* True if the text begins with the name. A longer name with the same beginning
 * belongs to another function. */
static bool has_name_of(const char *text, const char *name, size_t n) {
  return strncmp(text, name, n) == 0 && (text[n] == ':' || text[n] == ' ');
}

tn_code tn__error_add_name(tn_code code, const char *name) {
  const char *text = tn_error_text();
  const size_t n = name != NULL ? strlen(name) : 0;
  if (n == 0 || has_name_of(text, name, n)) return code;
  return tn__fail(code, "%s: %s", name, text);
}

tn__error *tn__error_derive(tn__engine *engine, tn__error *cause,
                            const char *name) {
  if (name == NULL || strlen(cause->text) > TEXT_MAX)
    return tn__error_retain(cause);
  (void)tn__fail(cause->code, "%s was not run: %s", name, cause->text);
  tn__error *error = create_error(engine->env, cause->code, tn_error_text());
  return error != NULL ? error : tn__error_retain(cause);
}

tn__error *tn__error_refuse(tn__engine *engine, const char *name) {
  return tn__error_create(
      engine, tn__fail(TN_BUSY, "%s was not run: the engine is shutting down",
                       name != NULL ? name : "a function"));
}

tn__error *tn__error_retain(tn__error *error) {
  (void)atomic_fetch_add_explicit(&error->n_owners, 1, memory_order_relaxed);
  return error;
}

void tn__error_release(tn__error *error) {
  if (error != NULL &&
      atomic_fetch_sub_explicit(&error->n_owners, 1, memory_order_acq_rel) == 1)
    tn__free(error->env, error);
}

void tn__error_put(tn__var *var, tn__error *error) {
  tn__error *old = var->error;
  if (old == error) return;
  var->error = error != NULL ? tn__error_retain(error) : NULL;
  if (error == NULL)
    tn__var_mark(var, TN__VAR_ERROR, 0);
  else
    tn__var_mark(var, 0, TN__VAR_ERROR);
  tn__error_release(old);
}

tn_code tn__error_set_text(const tn__error *error) {
  return tn__fail(error->code, "%s", error->text);
}

/* ----------------------------------------------------------------- wait_all */

static bool is_same_error(const tn__error *a, const tn__error *b) {
  return a->code == b->code && strcmp(a->text, b->text) == 0;
}

static tn__error *last_unreported(tn__engine *engine) {
  tn__error *last = engine->unreported;
  while (last != NULL && last->next != NULL) last = last->next;
  return last;
}

/* The lock is held. The reserved error may be announced many times, so it is
 * only counted. */
static void append_error(tn__engine *engine, tn__error *error) {
  if (engine->n_unreported++ >= UNREPORTED_MAX || error == engine->no_memory)
    return;
  *engine->unreported_end = tn__error_retain(error);
  engine->unreported_end = &error->next;
}

void tn__error_announce(tn__engine *engine, tn__error *error) {
  (void)pthread_mutex_lock(&engine->error_lock);
  append_error(engine, error);
  (void)pthread_mutex_unlock(&engine->error_lock);
}

void tn__error_announce_again(tn__engine *engine, tn__error *error) {
  (void)pthread_mutex_lock(&engine->error_lock);
  const tn__error *last = last_unreported(engine);
  if (last == NULL || !is_same_error(last, error)) append_error(engine, error);
  (void)pthread_mutex_unlock(&engine->error_lock);
}

tn__error *tn__error_collect(tn__engine *engine, uint64_t *n) {
  (void)pthread_mutex_lock(&engine->error_lock);
  tn__error *first = engine->unreported;
  *n = engine->n_unreported;
  engine->unreported = NULL;
  engine->unreported_end = &engine->unreported;
  engine->n_unreported = 0;
  (void)pthread_mutex_unlock(&engine->error_lock);
  return first;
}

/* ---------------------------------------------------------------- variables */

tn_code tn__var_check(const tn__var *var) {
  const uint64_t word = atomic_load_explicit(&var->word, memory_order_acquire);
  return (word & TN__VAR_ERROR) == 0 ? TN_OK : tn__error_set_text(var->error);
}

void tn__var_fail(tn__engine *engine, tn__var *var, tn_code code) {
  tn__error *error = tn__error_create(engine, code);
  tn__error_announce_again(engine, error);
  tn__error_put(var, error);
  tn__error_release(error);
}
