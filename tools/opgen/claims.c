/* SPDX-License-Identifier: Apache-2.0
 * claims.c: finds names that two parts of a plugin would share in the generated
 * C, and files that would be written twice. It renders the files with a
 * listener for each declared name, so the checked names are exactly the written
 * ones.
 */
#include <string.h>

#include "emit.h"
#include "opgen.h"

/* The owner of a name. */
typedef struct claim {
  const char *owner; /* "input `x` of `foo`" */
  tnm_pos pos;       /* line 0: no specific owner */
  const tnm_operator
      *document;     /* of kernels for another plugin's operator; or NULL */
  const char *again; /* the declaration that may be repeated; NULL: none */
} claim;

struct claims {
  emit names;       /* for name_format, in an arena for all files */
  tn__map claims;   /* claim * by scope and name */
  tn__map reported; /* pairs of places */
  tnm_diags *diags;
  const emit *emit;
  c_listener listener;
  const char *stem;
  claim file;        /* owner of the file */
  const char *whole; /* owner of files without a manifest */
  bool header;
  bool cuda; /* the companion is a separate program */
  bool failed;
};

static void keep_value(claims *c, tn__map *map, const char *key, void *value) {
  const tn__env *env = tn__env_default();
  c->failed |=
      c->names.arena->failed || tn__map_set(env, map, key, value) != TN_OK;
}

/* ------------------------------------------------------------------- owners */

static const char *noun_of(const char *list) {
  static const char *const nouns[][2] = {{"params", "parameter"},
                                         {"options", "option"},
                                         {"inputs", "input"},
                                         {"outputs", "output"},
                                         {"aux", "state"}};
  for (size_t i = 0; i < sizeof nouns / sizeof *nouns; ++i)
    if (strcmp(nouns[i][0], list) == 0) return nouns[i][1];
  return list;
}

/* The owner of the part that is being written now. */
static claim claim_of(claims *c) {
  const emit *e = c->emit;
  const tnm_operator *op = e->op;
  if (op == NULL) return c->file;
  const char *const nowhere[] = {NULL};
  const char *const item[] = {e->list, e->item, "name", NULL};
  const char *name = op->op != NULL ? op->op->name : op->target->op;
  claim mine = {.pos = tnm_find_place(op, e->item != NULL ? item : nowhere),
                .document = op->op == NULL ? op : NULL};
  if (e->item != NULL)
    mine.owner = name_format(&c->names, "%s `%s` of `%s`", noun_of(e->list),
                             e->item, name);
  else
    mine.owner = name_format(&c->names, "operator `%s`", name);
  return mine;
}

/* ------------------------------------------------------------------ clashes */

/* Two parts may share several names, and their derived operators too: only the
 * first one is reported. */
static bool is_new(claims *c, tnm_pos a, tnm_pos b) {
  const char *pair = name_format(&c->names, "%u:%u:%u %u:%u:%u", a.file, a.line,
                                 a.column, b.file, b.line, b.column);
  if (tn__map_get(&c->reported, pair) != NULL) return false;
  keep_value(c, &c->reported, pair, c);
  return true;
}

/* Help for two owners of the same kind. */
static const char *help_of_same(const claim *a, const claim *b) {
  return a->document != b->document ? "list all kernels for it in one document"
                                    : "give one of them another name";
}

static void report_clash(claims *c, const char *what, const char *name,
                         const claim *first, const claim *second) {
  const claim *at = second->pos.line > 0 ? second : first;
  const claim *other = at == second ? first : second;
  if (at->pos.line == 0 || !is_new(c, first->pos, second->pos)) return;
  const tnm_diag_spec spec = {"E0074", at->pos, at->owner};
  const size_t id =
      tnm_diag_add(c->diags, &spec, "two %s would be named `%s`", what, name);
  if (other->pos.line > 0 && strcmp(at->owner, other->owner) == 0) {
    tnm_diag_add_place(c->diags, id, other->pos, "%s", other->owner);
    tnm_diag_add_help(c->diags, id, "%s", help_of_same(first, second));
  } else if (other->pos.line > 0) {
    tnm_diag_add_place(c->diags, id, other->pos, "%s", other->owner);
    tnm_diag_add_help(c->diags, id, "rename %s or %s", other->owner, at->owner);
  } else {
    tnm_diag_add_note(c->diags, id, "the other is of %s", other->owner);
    tnm_diag_add_help(c->diags, id, "rename %s", at->owner);
  }
}

/* Adds a claim; `key` is the name in its scope. */
static void add_claim(claims *c, const char *what, const char *key,
                      const char *name, const claim *mine) {
  const claim *there = tn__map_get(&c->claims, key);
  if (there == NULL) {
    claim *copy = tn__arena_alloc(c->names.arena, sizeof *copy);
    if (copy != NULL) *copy = *mine;
    keep_value(c, &c->claims, key, copy);
  } else if (there->again == NULL || mine->again == NULL ||
             strcmp(there->again, mine->again) != 0) {
    report_clash(c, what, name, there, mine);
  }
}

/* The name in "*const o_input_list" and "operators[]". */
static const char *bare_name(claims *c, const char *declarator) {
  const char *begin = strrchr(declarator, ' ');
  begin = begin != NULL ? begin + 1 : declarator;
  return name_format(&c->names, "%.*s", (int)strcspn(begin, "["), begin);
}

/* Receives a declaration. Names of a header, and names that are not static, are
 * shared by all files; static names must differ from these too. */
static void on_declaration(void *self, const char *type, const char *declarator,
                           bool again) {
  static const char what[] = "things in C";
  claims *c = self;
  const char *name = bare_name(c, declarator);
  const char *program = c->cuda ? "cuda" : "";
  const char *whole = name_format(&c->names, "%s:%s", program, name);
  const char *local = name_format(&c->names, "%s:%s", c->stem, whole);
  const bool hidden = !c->header && strncmp(type, "static ", 7) == 0;
  const claim *there = tn__map_get(&c->claims, whole);
  claim mine = claim_of(c);
  if (again) mine.again = name_format(&c->names, "%s", type);
  if (hidden && there != NULL)
    report_clash(c, what, name, there, &mine);
  else
    add_claim(c, what, hidden ? local : whole, name, &mine);
}

/* -------------------------------------------------------------------- files */

static const tnm_operator *first_of(const emit *e, const char *stem) {
  for (size_t i = 0; stem != NULL && i < e->plugin->n_operators; ++i)
    if (strcmp(e->plugin->operators[i].stem, stem) == 0)
      return &e->plugin->operators[i];
  return NULL;
}

const c_listener *claims_begin(claims *c, const emit *e, const char *file,
                               const char *stem) {
  const tnm_operator *op = first_of(e, stem);
  const char *name = name_format(&c->names, "%s", file);
  c->file = (claim){.owner = c->whole};
  if (op != NULL)
    c->file = (claim){.owner = name_format(&c->names, "`%s`", op->file),
                      .pos = op->pos};
  c->emit = e;
  c->stem = name_format(&c->names, "%s", stem != NULL ? stem : "plugin");
  c->header = strcmp(file + strlen(file) - 2, ".h") == 0;
  add_claim(c, "files", name_format(&c->names, "file %s", name), name,
            &c->file);
  return &c->listener;
}

static bool check_files(claims *c, const tnm_plugin *plugin,
                        const opgen_selection *wanted) {
  opgen_files files;
  c->cuda = wanted->cuda;
  c->whole = wanted->cuda    ? "the kernels for CUDA"
             : wanted->tests ? "the plugin's tests"
                             : "the plugin itself";
  const bool fine = opgen_files_init(&files, plugin, wanted);
  opgen_files_deinit(&files);
  return fine && !c->failed;
}

bool opgen_check_names(const tnm_plugin *plugin, tnm_diags *diags) {
  const tn__env *env = tn__env_default();
  tn__arena arena;
  tn__arena_init(&arena, env);
  claims c = {.names = {.arena = &arena}, .diags = diags};
  c.listener = (c_listener){on_declaration, &c};
  const bool fine =
      opgen_find_bound(plugin) != NULL ||
      (check_files(&c, plugin, &(opgen_selection){.claims = &c}) &&
       check_files(&c, plugin,
                   &(opgen_selection){.cuda = true, .claims = &c}) &&
       check_files(&c, plugin,
                   &(opgen_selection){.tests = true, .claims = &c}));
  tn__map_deinit(env, &c.claims);
  tn__map_deinit(env, &c.reported);
  tn__arena_deinit(&arena);
  return fine;
}
