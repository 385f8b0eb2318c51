/* SPDX-License-Identifier: Apache-2.0
 * docs.h: the manual of a plugin, as Markdown in one file or in a folder.
 *
 *   cmd_docs.c    finds the built plugin, writes one file
 *   docs_page.c   one operator
 *   docs_table.c  its tables: parameters, operands, kernels
 *   docs_folder.c a file for each operator, and their list
 *   docs_family.c the order of lists: by family
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

/* Writes the list of one family's operators. */
typedef void docs_write_family(tn__buf *out, const docs *d, const char *family);

/* Writes the plugin's name and the texts of its plugin.yaml, if it has one. */
void docs_title(tn__buf *out, const tn_plugin *plugin);

/* Writes the page of operator `index`; its title is a heading of `level`. */
void docs_page(tn__buf *out, const docs *d, size_t index, int level);

/* Writes text that is no Markdown as Markdown. */
void docs_plain(tn__buf *out, const char *text);
/* Writes a line of an author's Markdown. A tag in it becomes text, so that no
 * manifest adds elements to a page; code keeps its characters. */
void docs_line(tn__buf *out, const char *line, size_t n);

void docs_params(tn__buf *out, const tn_op *op);
void docs_operands(tn__buf *out, const tnm_operator *from, uint32_t list);
void docs_dtypes(tn__buf *out, const tnm_operator *op);
void docs_kernels(tn__buf *out, const tnm_operator *op);
/* Writes kernels for operators of other plugins, under a heading for each. */
void docs_added_kernels(tn__buf *out, const docs *d);

/* Tests whether users call it: gradients of gradients are listed separately. */
bool docs_is_listed(const tnm_operator *op);

/* The families of the listed operators: calls `write` with each one, in the
 * order of the first operators, and then with NULL if an operator has none. */
void docs_families(tn__buf *out, const docs *d, docs_write_family *write);
/* Tests whether users call an operator of this family (NULL: none). */
bool docs_is_of_family(const tnm_operator *op, const char *family);
/* Writes the title of a family; nothing if no operator has one. */
void docs_family_title(tn__buf *out, const docs *d, const char *family,
                       const char *marks);

/* Removes all line ends at the end but one. */
void docs_trim_end(tn__buf *out);

/* Writes README.md and a file for each operator into a folder, which is created
 * if needed. False after a message. */
bool docs_folder(const docs *d, const char *folder);

#endif /* OPGEN_DOCS_H_ */
