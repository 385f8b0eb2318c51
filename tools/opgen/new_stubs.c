/* SPDX-License-Identifier: Apache-2.0
 * new_stubs.c: writes functions that manifests name and no file of the author
 * defines. Each one reports that it is not written. They include the header
 * from opgen, so the compiler finds a wrong prototype.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "cfile.h"
#include "new.h"

/* --------------------------------------------------------- existing sources */

/* The end of a comment or literal at `s`; `s` itself if there is none. */
static const char *skip_text(const char *s) {
  if (s[0] == '/' && s[1] == '*') {
    const char *end = strstr(s + 2, "*/");
    return end != NULL ? end + 2 : s + strlen(s);
  }
  if (s[0] == '/' && s[1] == '/') return s + strcspn(s, "\n");
  if (*s != '"' && *s != '\'') return s;
  const char quote = *s++;
  while (*s != '\0' && *s != quote && *s != '\n')
    s += s[0] == '\\' && s[1] ? 2 : 1;
  return *s == quote ? s + 1 : s;
}

static const char *skip_blanks(const char *s) {
  for (;;) {
    const char *next = skip_text(s + strspn(s, " \t\r\n"));
    if (next == s) return s;
    s = next;
  }
}

/* The end of the brackets that open at `s`. */
static const char *skip_brackets(const char *s) {
  int depth = 0;
  while (*s != '\0') {
    const char *next = skip_text(s);
    if (next != s) {
      s = next;
      continue;
    }
    depth += *s == '(' ? 1 : *s == ')' ? -1 : 0;
    ++s;
    if (depth == 0) break;
  }
  return s;
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

/* Tests whether the text has "symbol(...) {". */
static bool has_definition(const char *text, const char *symbol) {
  const size_t n = strlen(symbol);
  for (const char *s = text; *s != '\0';) {
    const char *next = skip_text(s);
    if (next != s) {
      s = next;
    } else if (!is_word(*s)) {
      ++s;
    } else {
      const char *end = s;
      while (is_word(*end)) ++end;
      const bool named = (size_t)(end - s) == n && memcmp(s, symbol, n) == 0;
      s = end;
      if (!named) continue;
      s = skip_blanks(s);
      if (*s == '(' && *skip_blanks(skip_brackets(s)) == '{') return true;
    }
  }
  return false;
}

static bool is_source(const char *name) {
  static const char *const ends[] = {".c", ".cu", ".cc", ".cpp", ".h"};
  const size_t n = strlen(name);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; ++i) {
    const size_t k = strlen(ends[i]);
    if (n > k && strcmp(name + n - k, ends[i]) == 0) return name[0] != '.';
  }
  return false;
}

enum { MAX_FOLDERS = 8, MAX_PATH = 4096 };

/* Tests for a folder of sources: no link, not hidden, and not of another
 * plugin. */
static bool is_folder(const char *path, const char *name) {
  char manifest[MAX_PATH];
  struct stat info;
  const int n = snprintf(manifest, sizeof manifest, "%s/plugin.yaml", path);
  return name[0] != '.' && n > 0 && (size_t)n < sizeof manifest &&
         lstat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
         stat(manifest, &info) != 0;
}

static bool read_source(const char *path, tn__buf *out) {
  char *text = new_read(path, false);
  if (text != NULL) tn__buf_add(out, "%s\n", text);
  tn__free(tn__env_default(), text);
  return text != NULL && !out->failed;
}

/* Reads every source file of the folder and of those below into one text. */
static bool read_sources(const char *folder, int depth, tn__buf *out) {
  DIR *dir = opendir(folder);
  bool fine = dir != NULL;
  if (dir == NULL)
    fprintf(stderr, "opgen new: cannot read %s: %s\n", folder, strerror(errno));
  for (struct dirent *e = NULL; fine && (e = readdir(dir)) != NULL;) {
    char path[MAX_PATH];
    (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    if (is_source(e->d_name))
      fine = read_source(path, out);
    else if (depth < MAX_FOLDERS && is_folder(path, e->d_name))
      fine = read_sources(path, depth + 1, out);
  }
  if (dir != NULL) (void)closedir(dir);
  return fine;
}

/* ---------------------------------------------------------------- functions */

/* The new file. */
typedef struct writer {
  new_stubs *stubs;
  c_file body;
  tn__buf known; /* sources of the folder */
  tn__buf stems; /* "\nprelu\n": the manifests with an included header */
} writer;

/* One function. Its body is `rest`, or `first` and a message that it is not
 * written. */
typedef struct stub {
  const char *comment;
  const char *result;
  const char *symbol;
  const char *parameters;
  const char *rest;
  const char *first;
} stub;

static void add_include(writer *w, const char *stem) {
  tn__buf line;
  tn__buf_init(&line, tn__env_default());
  tn__buf_add(&line, "\n%s\n", stem);
  if (w->stems.s == NULL || strstr(w->stems.s, line.s) == NULL)
    tn__buf_add(&w->stems, "%s", line.s);
  tn__buf_deinit(&line);
  if (w->stubs->stem == NULL) w->stubs->stem = stem;
}

static void add_stub(writer *w, const stub *s) {
  c_file *c = &w->body;
  if (s->symbol == NULL ||
      (w->known.s != NULL && has_definition(w->known.s, s->symbol)))
    return;
  ++w->stubs->n;
  tn__buf_add(&w->known, "%s() {}\n", s->symbol);
  c_add(c, "\n");
  c_comment(c, s->comment);
  c_function_head(c, &(c_function){s->result, s->symbol, s->parameters, " {"});
  if (s->rest != NULL)
    c_add(c, "%s}\n", s->rest);
  else
    c_add(c,
          "%sreturn TN_FAIL(call, TN_UNIMPLEMENTED, "
          "\"%s is not written yet\");\n}\n",
          s->first != NULL ? s->first : "", s->symbol);
}

static void add_state(writer *w, const tnm_kernel *k) {
  tn__buf create, destroy;
  if (k->state_type == NULL) return;
  tn__buf_init(&create, tn__env_default());
  tn__buf_init(&destroy, tn__env_default());
  tn__buf_add(&create, "const tn_frame *call, %s **out", k->state_type);
  tn__buf_add(&destroy, "%s *state", k->state_type);
  add_stub(
      w,
      &(stub){"Makes the data that calls of one kind share, and stores it in "
              "*out.",
              "int32_t ", k->state_create, create.s != NULL ? create.s : "",
              .first = "*out = NULL;\n"});
  add_stub(w, &(stub){"Frees the data of the function above.", "void ",
                      k->state_destroy, destroy.s != NULL ? destroy.s : "",
                      .rest = "(void)state;\n"});
  w->body.failed |= create.failed || destroy.failed;
  tn__buf_deinit(&create), tn__buf_deinit(&destroy);
}

static bool is_cuda(const tnm_kernel *k) {
  const tn_kernel *table = k->forward != NULL ? k->forward : k->backward;
  return table != NULL && table->device_type != TN_DEVICE_CPU;
}

/* Writes the comment of a forward kernel. It mentions absent inputs and
 * unwanted outputs only if they are possible. */
static void comment_forward(const tn_op *op, tn__buf *out) {
  bool optional = false;
  for (uint32_t i = 0; op != NULL && i < op->n_inputs; ++i)
    optional = optional || (op->inputs[i]->flags & TN_ARG_OPTIONAL) != 0;
  tn__buf_add(out,
              "Computes call->out from call->in. The header above names their "
              "places and has the parameters as a struct.");
  if (optional)
    tn__buf_add(out,
                " An optional input that was not given has TN_IN_ABSENT in "
                "call->in_flags, and its data is NULL.");
  if (op != NULL && op->n_outputs > 1)
    tn__buf_add(out,
                " Leave an output alone if its request, in call->req, is "
                "TN_REQ_NULL: its data is NULL.");
}

static void add_forward(writer *w, const tn_op *op, const char *symbol) {
  tn__buf comment;
  tn__buf_init(&comment, tn__env_default());
  comment_forward(op, &comment);
  add_stub(w, &(stub){comment.s != NULL ? comment.s : "", "int32_t ", symbol,
                      "const tn_frame *call", NULL, NULL});
  w->body.failed |= comment.failed;
  tn__buf_deinit(&comment);
}

static void add_backward(writer *w, const char *symbol) {
  add_stub(w, &(stub){"Computes the gradients of the inputs, call->out, from "
                      "call->in; the header above names the places. Leave a "
                      "gradient alone if its request, in call->req, is "
                      "TN_REQ_NULL: its data is NULL. Entries of call->in that "
                      "no wanted gradient needs have TN_IN_ABSENT in "
                      "call->in_flags, and their data is NULL.",
                      "int32_t ", symbol, "const tn_frame *call", NULL, NULL});
}

static void add_kernel(writer *w, const tn_op *op, const tnm_kernel *k) {
  static const char call[] = "const tn_frame *call";
  if (is_cuda(k) != w->stubs->cuda) return;
  add_forward(w, op, k->forward_symbol);
  add_backward(w, k->backward_symbol);
  add_stub(w, &(stub){"Says whether this kernel takes a call: TN_OK, or "
                      "TN_UNSUPPORTED after TN_FAIL with the reason.",
                      "int32_t ", k->supports_symbol, call, NULL, NULL});
  add_stub(w, &(stub){"Says how many bytes of scratch memory a call needs.",
                      "int32_t ", k->workspace_symbol,
                      "const tn_frame *call, uint64_t *bytes",
                      .first = "*bytes = 0;\n"});
  add_stub(w, &(stub){"Offers register kernels (tenon/draft/registers.h) in "
                      "plan->prepared.",
                      "int32_t ", k->registers_symbol,
                      "const tn_frame *call, tn_plan *plan",
                      .first = "plan->prepared = NULL;\n"});
  add_state(w, k);
}

static void add_operator(writer *w, const tnm_operator *op) {
  const size_t before = w->stubs->n;
  const tn_op *table = op->op != NULL ? op->op : op->target_op;
  for (size_t i = 0; i < op->n_kernels; ++i)
    add_kernel(w, table, &op->kernels[i]);
  if (!w->stubs->cuda)
    add_stub(w, &(stub){"States the shapes that follow from those that are "
                        "known, by call->host->set_shape.",
                        "int32_t ", op->infer_symbol, "const tn_frame *call",
                        NULL, NULL});
  if (w->stubs->n > before) add_include(w, op->stem);
}

static void add_plugin(writer *w, const tnm_plugin *plugin) {
  const size_t before = w->stubs->n;
  add_stub(w, &(stub){"Runs when a runtime loads the plugin.", "int32_t ",
                      plugin->init_symbol,
                      "const tn_host *host, tn_registrar *registrar, void "
                      "**instance",
                      .rest = "(void)host;\n(void)registrar;\n"
                              "*instance = NULL;\nreturn TN_OK;\n"});
  add_stub(w,
           &(stub){"Undoes the function above.", "void ", plugin->fini_symbol,
                   "void *instance", .rest = "(void)instance;\n"});
  if (w->stubs->n > before) add_include(w, "plugin");
}

static bool is_asked(const new_stubs *stubs, const tnm_operator *op) {
  if (stubs->op == NULL) return true;
  const bool own = op->op != NULL;
  const char *name = own ? op->op->name : op->target->op;
  const char *dot = strchr(name, '.');
  if (!own && strcmp(op->stem, stubs->op) == 0) return true;
  if (dot != NULL) name = dot + 1;
  const size_t n = strcspn(name, "@");
  return strlen(stubs->op) == n && memcmp(name, stubs->op, n) == 0;
}

/* Writes the head of the file, then the functions. */
static void put_together(const writer *w, tn__buf *out) {
  c_file head;
  c_init(&head, out->env);
  c_comment(&head,
            "Functions that the manifests name and that are still to be "
            "written. A kernel reads call->in and writes call->out, as "
            "tenon/plugin/op.h and plugin-build.md say; an installed Tenon has "
            "them in include/tenon and share/doc/tenon.");
  for (const char *s = w->stems.s; s != NULL && *s != '\0';) {
    s += strspn(s, "\n");
    const size_t n = strcspn(s, "\n");
    if (n > 0) c_add(&head, "#include \"%.*s.gen.h\"\n", (int)n, s);
    s += n;
  }
  c_print(&head, out);
  c_print(&w->body, out);
  c_deinit(&head);
}

bool new_stubs_write(new_stubs *stubs, tn__buf *out) {
  const tn__env *env = tn__env_default();
  writer w = {.stubs = stubs};
  c_init(&w.body, env);
  tn__buf_init(&w.known, env);
  tn__buf_init(&w.stems, env);
  bool fine = read_sources(stubs->folder, 0, &w.known);
  for (size_t i = 0; i < stubs->plugin->n_operators && fine; ++i)
    if (is_asked(stubs, &stubs->plugin->operators[i]))
      add_operator(&w, &stubs->plugin->operators[i]);
  if (fine && stubs->op == NULL && !stubs->cuda) add_plugin(&w, stubs->plugin);
  if (fine && stubs->n > 0) put_together(&w, out);
  fine = fine && !w.known.failed && !w.stems.failed && !out->failed;
  c_deinit(&w.body);
  tn__buf_deinit(&w.known), tn__buf_deinit(&w.stems);
  return fine;
}
