/* SPDX-License-Identifier: Apache-2.0
 * docs.h: the manual of a plugin. A page is written once, as Markdown; the site
 * converts the same text.
 *
 *   cmd_docs.c   finds the built plugin, writes one file or a site
 *   docs_page.c  one operator
 *   docs_table.c its tables: parameters, operands, kernels
 *   docs_site.c  pages, styles and the search of a site
 *   html.c       Markdown to HTML
 */
#ifndef OPGEN_DOCS_H_
#define OPGEN_DOCS_H_

#include "opgen.h"
#include "trial.h"

/* The subject of a manual. */
typedef struct docs {
  const tnm_plugin *plugin;
  const trials *trials; /* NULL: no built plugin was found */
  const char *built;    /* its file name, "elemwise.so" */
} docs;

/* Writes the plugin's name and the texts of its plugin.yaml, if it has one. */
void docs_title(tn__buf *out, const tn_plugin *plugin);

/* Writes the page of operator `index`; its title is a heading of `level`. */
void docs_page(tn__buf *out, const docs *d, size_t index, int level);

/* Writes text that is no Markdown as Markdown. */
void docs_plain(tn__buf *out, const char *text);

void docs_params(tn__buf *out, const tn_op *op);
void docs_operands(tn__buf *out, const tn_op *op, uint32_t list);
void docs_dtypes(tn__buf *out, const tnm_operator *op);
void docs_kernels(tn__buf *out, const tnm_operator *op);
/* Writes kernels for operators of other plugins, under a heading for each. */
void docs_added_kernels(tn__buf *out, const docs *d);

/* Tests whether users call it: gradients of gradients are listed separately. */
bool docs_is_listed(const tnm_operator *op);

/* Writes a site into a folder. False after a message. */
bool docs_site(const docs *d, const char *folder);

/* Converts Markdown to HTML: headings, paragraphs, lists, tables, fences, and
 * within lines code, emphasis and links. Everything else is text; HTML in it is
 * shown as text. */
void html_from_markdown(tn__buf *out, const char *text);
/* Escapes text for an element or an attribute in double quotes. */
void html_escape(tn__buf *out, const char *text, size_t n);

#endif /* OPGEN_DOCS_H_ */
