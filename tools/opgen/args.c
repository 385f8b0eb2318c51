/* SPDX-License-Identifier: Apache-2.0
 * args.c: parses a command line.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "opgen.h"

typedef struct option {
  const char *name;
  unsigned bit;
  bool has_value;
  const char *choices; /* values with `|` between, or NULL: any */
} option;

/* The bit of options that every command accepts, also one without options. */
#define EVERY_COMMAND (1u << 31)

static const option options[] = {
    {"-o", TAKES_OUT_DIR, true, NULL},
    {"--depfile", TAKES_DEPFILE, true, NULL},
    {"--with", TAKES_WITH, true, NULL},
    {"-Werror", TAKES_WERROR, false, NULL},
    {"-W", TAKES_LINTS, true, NULL},
    {"--list", TAKES_LIST, false, NULL},
    {"--error-format", TAKES_FORMAT, true, "human|short|json"},
    {"--c", TAKES_C, false, NULL},
    {"--check", TAKES_CHECK, false, NULL},
    {"--pages", TAKES_PAGES, true, NULL},
    {"--plugin", TAKES_PLUGIN, true, NULL},
    {"--cuda", TAKES_CUDA, false, NULL},
    {"--tests", TAKES_TESTS, false, NULL},
    {"--kernels", TAKES_KERNELS, true, "cpu|cuda|cpu,cuda"},
    {"--from", TAKES_FROM, true, "quadratic|relu|convolution|binding"},
    {"--for", TAKES_FOR, true, NULL},
    {"--missing", TAKES_MISSING, false, NULL},
    {"--limit", TAKES_LIMIT, true, NULL},
    {"-e", TAKES_EXPRESSION, true, NULL},
    {"--op", TAKES_OP, true, NULL},
    {"--param", TAKES_PARAMS, true, NULL},
    {"--grad", TAKES_GRAD, false, NULL},
    {"--dtype", TAKES_DTYPE, true, NULL},
    {"--help", EVERY_COMMAND, false, NULL},
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static const option *find_bit(unsigned bit) {
  for (size_t i = 0; i < N_OPTIONS; ++i)
    if (options[i].bit == bit) return &options[i];
  return NULL;
}

const char *opgen_option_name(unsigned bit) {
  const option *o = find_bit(bit);
  return o != NULL ? o->name : "";
}

const char *opgen_option_choices(unsigned bit) {
  const option *o = find_bit(bit);
  return o != NULL ? o->choices : NULL;
}

bool opgen_has_color(void) {
  const char *term = getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && getenv("NO_COLOR") == NULL &&
         (term == NULL || strcmp(term, "dumb") != 0);
}

int opgen_usage_error(const char *command, const char *format, ...) {
  va_list args;
  fprintf(stderr, "opgen%s%s: ", command != NULL ? " " : "",
          command != NULL ? command : "");
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "\n  = help: `opgen%s%s --help` shows the usage\n",
          command != NULL ? " " : "", command != NULL ? command : "");
  return EXIT_USAGE;
}

static const option *find_option(const char *text, size_t n, unsigned takes) {
  for (size_t i = 0; i < N_OPTIONS; ++i) {
    const option *o = &options[i];
    if ((o->bit & (takes | EVERY_COMMAND)) != 0 && strlen(o->name) == n &&
        memcmp(o->name, text, n) == 0)
      return o;
  }
  return NULL;
}

static bool report_unknown(const opgen_args *args, const char *text, size_t n,
                           unsigned takes) {
  const char *names[N_OPTIONS];
  size_t n_names = 0;
  char word[64];
  for (size_t i = 0; i < N_OPTIONS; ++i)
    if ((options[i].bit & takes) != 0) names[n_names++] = options[i].name;
  (void)snprintf(word, sizeof word, "%.*s", (int)(n < 60 ? n : 60), text);
  const char *near = tn__find_nearest_word(word, names, n_names);
  if (near != NULL)
    opgen_usage_error(args->command, "unknown option `%s`; did you mean `%s`?",
                      word, near);
  else
    opgen_usage_error(args->command, "unknown option `%s`", word);
  return false;
}

static bool set_format(opgen_args *args, const char *value) {
  static const char *const names[] = {"human", "short", "json"};
  for (int i = 0; i < 3; ++i) {
    if (strcmp(value, names[i]) != 0) continue;
    args->format = i;
    return true;
  }
  opgen_usage_error(args->command,
                    "`--error-format` is human, short or json, not `%s`",
                    value);
  return false;
}

static bool set_limit(opgen_args *args, const char *value) {
  char *end = NULL;
  const long seconds = strtol(value, &end, 10);
  if (end != value && *end == '\0' && seconds >= 1 && seconds <= 86400) {
    args->seconds = seconds;
    return true;
  }
  opgen_usage_error(args->command,
                    "`--limit` is a number of seconds, 1 to 86400, not `%s`",
                    value);
  return false;
}

/* Sets the options of `opgen new`. */
static bool set_new(opgen_args *args, const option *o, const char *value) {
  switch (o->bit) {
    case TAKES_KERNELS:
      args->kernels = value;
      return true;
    case TAKES_FROM:
      args->from = value;
      return true;
    case TAKES_FOR:
      args->target = value;
      return true;
    default:
      args->missing = true;
      return true;
  }
}

/* Sets the options of `opgen eval`. */
static bool set_eval(opgen_args *args, const option *o, const char *value) {
  switch (o->bit) {
    case TAKES_EXPRESSION:
      args->expression = value;
      return true;
    case TAKES_OP:
      args->op = value;
      return true;
    case TAKES_PARAMS:
      args->params[args->n_params++] = value;
      return true;
    case TAKES_DTYPE:
      args->dtype = value;
      return true;
    default:
      args->grad = true;
      return true;
  }
}

static bool set_option(opgen_args *args, const option *o, const char *value) {
  switch (o->bit) {
    case TAKES_EXPRESSION:
    case TAKES_OP:
    case TAKES_PARAMS:
    case TAKES_GRAD:
    case TAKES_DTYPE:
      return set_eval(args, o, value);
    case TAKES_KERNELS:
    case TAKES_FROM:
    case TAKES_FOR:
    case TAKES_MISSING:
      return set_new(args, o, value);
    case TAKES_OUT_DIR:
      args->out_dir = value;
      return true;
    case TAKES_DEPFILE:
      args->depfile = value;
      return true;
    case TAKES_WITH:
      args->with[args->n_with++] = value;
      return true;
    case TAKES_WERROR:
      args->werror = true;
      return true;
    case TAKES_LINTS:
      args->lints[args->n_lints++] = value;
      return true;
    case TAKES_LIST:
      args->list_lints = true;
      return true;
    case TAKES_FORMAT:
      return set_format(args, value);
    case TAKES_LIMIT:
      return set_limit(args, value);
    case TAKES_C:
      args->show_c = true;
      return true;
    case TAKES_PAGES:
      args->pages = value;
      return true;
    case TAKES_PLUGIN:
      args->plugin = value;
      return true;
    case TAKES_CHECK:
      args->only_check = true;
      return true;
    case TAKES_CUDA:
      args->cuda = true;
      return true;
    case TAKES_TESTS:
      args->tests = true;
      return true;
    default:
      args->help = true;
      return true;
  }
}

/* Reads a lint option: `-Wdoc` is `-W doc`; `-Werror` is an option of its
 * own. */
static bool read_lint(opgen_args *args, unsigned takes, const char *text) {
  if ((takes & TAKES_LINTS) == 0 || strncmp(text, "-W", 2) != 0 ||
      text[2] == '\0' || strcmp(text, "-Werror") == 0)
    return false;
  args->lints[args->n_lints++] = text + 2;
  return true;
}

/* Reads the option at argv[*i], with its value after `=` or in the next
 * argument. */
static bool read_option(opgen_args *args, unsigned takes, int argc, char **argv,
                        int *i) {
  const char *text = argv[*i];
  const size_t n = strcspn(text, "=");
  if (read_lint(args, takes, text)) return true;
  const option *o = find_option(text, n, takes);
  if (o == NULL) return report_unknown(args, text, n, takes);
  const char *value = text[n] == '=' ? text + n + 1 : NULL;
  if (o->has_value && value == NULL && *i + 1 < argc) value = argv[++*i];
  if (o->has_value == (value != NULL)) return set_option(args, o, value);
  opgen_usage_error(args->command,
                    o->has_value ? "`%s` needs a value" : "`%s` takes no value",
                    o->name);
  return false;
}

/* Tests whether an argument is an input of `opgen eval`: -4. */
static bool is_negative_number(const char *text, unsigned takes) {
  return (takes & TAKES_EXPRESSION) != 0 &&
         strchr("0123456789.", text[1]) != NULL;
}

bool opgen_args_init(opgen_args *args, unsigned takes, int argc, char **argv) {
  const char *command = args->command;
  const tn__env *env = tn__env_default();
  const size_t bytes = ((size_t)argc + 1) * sizeof(char *);
  *args = (opgen_args){.command = command};
  args->files = tn__alloc(env, bytes);
  args->with = tn__alloc(env, bytes);
  args->lints = tn__alloc(env, bytes);
  args->params = tn__alloc(env, bytes);
  if (args->files == NULL || args->with == NULL || args->lints == NULL ||
      args->params == NULL) {
    fprintf(stderr, "opgen: out of memory\n");
    return false;
  }
  for (int i = 0; i < argc; ++i) {
    if (argv[i][0] != '-' || argv[i][1] == '\0' ||
        is_negative_number(argv[i], takes))
      args->files[args->n_files++] = argv[i];
    else if (!read_option(args, takes, argc, argv, &i))
      return false;
  }
  return true;
}

void opgen_args_deinit(opgen_args *args) {
  tn__free(tn__env_default(), (void *)args->files);
  tn__free(tn__env_default(), (void *)args->with);
  tn__free(tn__env_default(), (void *)args->lints);
  tn__free(tn__env_default(), (void *)args->params);
}
