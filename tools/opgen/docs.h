/* SPDX-License-Identifier: Apache-2.0
 * docs.h: the manual of a plugin. A page is written once, as Markdown; the site
 * is made of the same text.
 *
 * files: cmd_docs.c   finds the built plugin, writes one file or a site
 *        docs_page.c  one operator
 *        docs_table.c its tables: parameters, operands, kernels
 *        docs_site.c  pages, styles and the search of a site
 *        html.c       Markdown to HTML
 */
#ifndef OPGEN_DOCS_H_
#define OPGEN_DOCS_H_

#include "opgen.h"
#include "trial.h"

/* What is documented. */
typedef struct docs {
  const tnm_plugin *plugin;
  const trials *trials; /* NULL: no built plugin was found */
  const char *built;    /* its name for readers, "elemwise.so" */
} docs;

/* The plugin's name, and what its plugin.yaml says of it, if it has one. */
void docs_title(tn__buf *out, const tn_plugin *plugin);

/* The page of operator `index`; its title is a heading of `level`. */
void docs_page(tn__buf *out, const docs *d, size_t index, int level);

/* Text that is no Markdown, as Markdown. */
void docs_plain(tn__buf *out, const char *text);

void docs_params(tn__buf *out, const tn_op *op);
void docs_operands(tn__buf *out, const tn_op *op, uint32_t list);
void docs_dtypes(tn__buf *out, const tnm_operator *op);
void docs_kernels(tn__buf *out, const tnm_operator *op);
/* Kernels for operators of other plugins, under a heading for each. */
void docs_added_kernels(tn__buf *out, const docs *d);

/* Whether users see it: gradients of gradients are listed apart. */
bool docs_is_listed(const tnm_operator *op);

/* Writes a site into a folder. False after a message. */
bool docs_site(const docs *d, const char *folder);

/* Markdown as HTML: headings, paragraphs, lists, tables, fences, and within
 * lines code, emphasis and links. Everything else is text; markup in it is
 * shown, not obeyed. */
void html_from_markdown(tn__buf *out, const char *text);
/* Text for an element or an attribute in double quotes. */
void html_escape(tn__buf *out, const char *text, size_t n);

#endif /* OPGEN_DOCS_H_ */
