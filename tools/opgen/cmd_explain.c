/* SPDX-License-Identifier: Apache-2.0
 * cmd_explain.c: `opgen explain CODE`: prints the long text of a code.
 */
#include <string.h>

#include "opgen.h"

static int unknown_code(const char *code) {
  const char *near = NULL;
  const char *known[256];
  size_t n = 0;
  while (n < 256 && (known[n] = tnm_code_at(n)) != NULL) ++n;
  near = tn__find_nearest_word(code, known, n);
  fprintf(stderr, "opgen explain: there is no code `%s`", code);
  if (near != NULL) fprintf(stderr, "; did you mean `%s`?", near);
  fprintf(stderr, "\n");
  return EXIT_ERRORS;
}

static int list_codes(void) {
  const char *code = NULL;
  for (size_t i = 0; (code = tnm_code_at(i)) != NULL; ++i) puts(code);
  return EXIT_FINE;
}

int cmd_explain(const opgen_args *args) {
  if (args->n_files == 0) return list_codes();
  const char *text = tnm_code_explain(args->files[0]);
  if (text == NULL) return unknown_code(args->files[0]);
  const size_t n = strlen(text);
  printf("%s%s", text, n > 0 && text[n - 1] == '\n' ? "" : "\n");
  return EXIT_FINE;
}
