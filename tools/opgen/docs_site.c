/* SPDX-License-Identifier: Apache-2.0
 * docs_site.c: writes a manual as a folder of HTML files. It needs no
 * server, no network and no script except for its search, which contains its
 * index.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "docs.h"

/* ---------------------------------------------------------------- constants */

static const char style[] =
    ":root { --text: #1c2127; --soft: #5b6570; --back: #fff; --line: #d9dee3;\n"
    "  --code: #f4f6f8; --link: #0b5cad; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  :root { --text: #dde3e9; --soft: #97a3ae; --back: #14181c;\n"
    "    --line: #333b43; --code: #1d2329; --link: #7fb8f2; }\n"
    "}\n"
    "* { box-sizing: border-box; }\n"
    "html { color-scheme: light dark; }\n"
    "body { margin: 0; background: var(--back); color: var(--text);\n"
    "  font: 16px/1.55 system-ui, sans-serif; }\n"
    "a { color: var(--link); text-decoration: none; }\n"
    "a:hover, a:focus { text-decoration: underline; }\n"
    "header { position: sticky; top: 0; display: flex; gap: 1rem;\n"
    "  align-items: center; background: var(--back);\n"
    "  padding: .6rem max(1rem, 50vw - 35rem);\n"
    "  border-bottom: 1px solid var(--line); z-index: 1; }\n"
    "header a { font-weight: 600; }\n"
    "#search { flex: 1; max-width: 24rem; padding: .35rem .6rem; font: "
    "inherit;\n"
    "  color: inherit; background: var(--code); border: 1px solid "
    "var(--line);\n"
    "  border-radius: .4rem; }\n"
    "#found { position: absolute; top: 100%; left: 0; right: 0; margin: 0;\n"
    "  padding: 0; list-style: none; background: var(--back);\n"
    "  border-bottom: 1px solid var(--line); max-height: 70vh;\n"
    "  overflow-y: auto; }\n"
    "#found a { display: block; padding: .5rem max(1rem, 50vw - 35rem);\n"
    "  font-weight: 400; }\n"
    "#found a:hover, #found a:focus { background: var(--code); }\n"
    "#found span { color: var(--soft); }\n"
    ".page { display: flex; gap: 2rem; max-width: 72rem; margin: 0 auto;\n"
    "  padding: 0 1rem 4rem; }\n"
    "main { flex: 1; min-width: 0; }\n"
    "nav { width: 13rem; flex: none; padding-top: 1.6rem; font-size: .92rem; "
    "}\n"
    "nav ul { list-style: none; margin: 0; padding: 0; }\n"
    "nav [aria-current] { color: var(--text); font-weight: 600; }\n"
    "h1 { font-size: 1.7rem; margin: 1.4rem 0 .4rem; overflow-wrap: anywhere; "
    "}\n"
    "h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; padding-bottom: .2rem;\n"
    "  border-bottom: 1px solid var(--line); }\n"
    "h3 { font-size: 1rem; margin: 1.3rem 0 .4rem; color: var(--soft); }\n"
    "code { font: .9em ui-monospace, monospace; background: var(--code);\n"
    "  padding: .1em .3em; border-radius: .25rem; }\n"
    "pre { background: var(--code); padding: .7rem .9rem; overflow-x: auto;\n"
    "  border-radius: .4rem; margin: .6rem 0; }\n"
    "pre code { padding: 0; background: none; }\n"
    ".wide { overflow-x: auto; }\n"
    "table { border-collapse: collapse; font-size: .94rem; }\n"
    "th, td { text-align: left; vertical-align: top; padding: .35rem 1rem "
    ".35rem\n"
    "  0; border-bottom: 1px solid var(--line); }\n"
    "th { color: var(--soft); font-weight: 500; }\n"
    "footer { display: flex; justify-content: space-between; margin-top: 3rem; "
    "}\n"
    "@media (max-width: 44rem) {\n"
    "  .page { flex-direction: column-reverse; gap: 0; }\n"
    "  nav { width: auto; border-top: 1px solid var(--line); }\n"
    "  nav ul { columns: 2; }\n"
    "  nav a { display: block; padding: .3rem 0; }\n"
    "}\n";

static const char search[] =
    "\n"
    "// Every word must occur; a name counts more than a summary, and that "
    "more\n"
    "// than the rest.\n"
    "function search(query) {\n"
    "  const words = query.toLowerCase().split(/\\s+/).filter(Boolean);\n"
    "  if (words.length === 0) return [];\n"
    "  const found = [];\n"
    "  for (const page of index) {\n"
    "    let score = 0;\n"
    "    for (const word of words) {\n"
    "      const name = page.name.toLowerCase();\n"
    "      const here = name === word ? 100 : name.startsWith(word) ? 50\n"
    "        : name.includes(word) ? 20\n"
    "        : page.summary.toLowerCase().includes(word) ? 5\n"
    "        : page.text.toLowerCase().includes(word) ? 1 : 0;\n"
    "      if (here === 0) { score = 0; break; }\n"
    "      score += here;\n"
    "    }\n"
    "    if (score > 0) found.push({page, score});\n"
    "  }\n"
    "  found.sort((a, b) => b.score - a.score ||\n"
    "    (a.page.name < b.page.name ? -1 : 1));\n"
    "  return found.map(each => each.page);\n"
    "}\n"
    "\n"
    "function show(input, list) {\n"
    "  list.replaceChildren(...search(input.value).slice(0, 12).map(page => {\n"
    "    const item = document.createElement('li');\n"
    "    const link = document.createElement('a');\n"
    "    const summary = document.createElement('span');\n"
    "    link.href = page.url;\n"
    "    link.textContent = page.name + ' ';\n"
    "    summary.textContent = page.summary;\n"
    "    link.append(summary);\n"
    "    item.append(link);\n"
    "    return item;\n"
    "  }));\n"
    "}\n"
    "\n"
    "if (typeof document !== 'undefined') {\n"
    "  const input = document.getElementById('search');\n"
    "  const list = document.getElementById('found');\n"
    "  input.addEventListener('input', () => show(input, list));\n"
    "  input.addEventListener('keydown', event => {\n"
    "    const first = list.querySelector('a');\n"
    "    if (event.key === 'Enter' && first) location.href = first.href;\n"
    "    if (event.key === 'Escape') { input.value = ''; show(input, list); }\n"
    "  });\n"
    "  document.addEventListener('keydown', event => {\n"
    "    if (event.key !== '/' || event.target === input) return;\n"
    "    event.preventDefault();\n"
    "    input.focus();\n"
    "  });\n"
    "}\n"
    "if (typeof module !== 'undefined') module.exports = {index, search};\n";

/* -------------------------------------------------------------------- frame */

static const char *name_at(const docs *d, size_t i) {
  return d->plugin->operators[i].op->name;
}

static bool is_page(const docs *d, size_t i) {
  return d->plugin->operators[i].op != NULL;
}

static void add_text(tn__buf *out, const char *text) {
  html_escape(out, text, strlen(text));
}

static void add_group(tn__buf *out, const docs *d, size_t at, bool listed) {
  tn__buf_add(out, "<ul>\n");
  for (size_t i = 0; i < d->plugin->n_operators; ++i) {
    if (!is_page(d, i) || docs_is_listed(&d->plugin->operators[i]) != listed)
      continue;
    tn__buf_add(out, "<li><a href=\"%s.html\"%s>", name_at(d, i),
                i == at ? " aria-current=\"page\"" : "");
    add_text(out, name_at(d, i));
    tn__buf_add(out, "</a></li>\n");
  }
  tn__buf_add(out, "</ul>\n");
}

static bool has_hidden(const docs *d) {
  for (size_t i = 0; i < d->plugin->n_operators; ++i)
    if (is_page(d, i) && !docs_is_listed(&d->plugin->operators[i])) return true;
  return false;
}

static void begin_page(tn__buf *out, const docs *d, const char *title) {
  const char *name = d->plugin->plugin->name;
  tn__buf_add(out,
              "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
              "<meta charset=\"utf-8\">\n"
              "<meta name=\"viewport\" content=\"width=device-width, "
              "initial-scale=1\">\n<title>");
  add_text(out, title);
  tn__buf_add(out,
              "</title>\n<link rel=\"stylesheet\" href=\"style.css\">\n"
              "<script src=\"search.js\" defer></script>\n</head>\n<body>\n"
              "<header>\n<a href=\"index.html\">");
  add_text(out, name);
  tn__buf_add(out,
              "</a>\n<input id=\"search\" type=\"search\" "
              "placeholder=\"Search\" aria-label=\"Search\" "
              "autocomplete=\"off\">\n<ul id=\"found\"></ul>\n</header>\n"
              "<div class=\"page\">\n");
}

static void add_nav(tn__buf *out, const docs *d, size_t at) {
  tn__buf_add(out, "<nav aria-label=\"Operators\">\n");
  add_group(out, d, at, true);
  if (has_hidden(d)) {
    tn__buf_add(out, "<h3>For gradients</h3>\n");
    add_group(out, d, at, false);
  }
  tn__buf_add(out, "</nav>\n");
}

static void end_page(tn__buf *out) {
  tn__buf_add(out, "</div>\n</body>\n</html>\n");
}

/* -------------------------------------------------------------------- pages */

static void add_list(tn__buf *out, const docs *d, bool listed) {
  tn__buf_add(out, "| operator | summary |\n|---|---|\n");
  for (size_t i = 0; i < d->plugin->n_operators; ++i) {
    const tnm_operator *op = &d->plugin->operators[i];
    if (op->op == NULL || docs_is_listed(op) != listed) continue;
    tn__buf_add(out, "| [%s](%s.html) | ", op->op->name, op->op->name);
    docs_plain(out, op->op->summary != NULL ? op->op->summary : "");
    tn__buf_add(out, " |\n");
  }
  tn__buf_add(out, "\n");
}

static void write_index(tn__buf *out, const docs *d) {
  const tn_plugin *plugin = d->plugin->plugin;
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  docs_title(&text, plugin);
  if (plugin->n_operators > 0) {
    tn__buf_add(&text, "## Operators\n\n");
    add_list(&text, d, true);
  }
  if (has_hidden(d)) {
    tn__buf_add(&text, "## For gradients\n\n");
    add_list(&text, d, false);
  }
  docs_added_kernels(&text, d);
  begin_page(out, d, plugin->name);
  tn__buf_add(out, "<main>\n");
  html_from_markdown(out, text.s);
  tn__buf_add(out, "</main>\n");
  end_page(out);
  out->failed |= text.failed;
  tn__buf_deinit(&text);
}

/* The operator before or after this one; n_operators if there is none. */
static size_t neighbour_of(const docs *d, size_t i, bool behind) {
  const size_t n = d->plugin->n_operators;
  for (;;) {
    i = behind ? i + 1 : i - 1;
    if (i >= n) return n;
    if (is_page(d, i)) return i;
  }
}

static void add_footer(tn__buf *out, const docs *d, size_t i) {
  const size_t n = d->plugin->n_operators;
  const size_t before = neighbour_of(d, i, false),
               behind = neighbour_of(d, i, true);
  tn__buf_add(out, "<footer>\n<span>");
  if (before < n)
    tn__buf_add(out, "<a href=\"%s.html\">&larr; %s</a>", name_at(d, before),
                name_at(d, before));
  tn__buf_add(out, "</span>\n<span>");
  if (behind < n)
    tn__buf_add(out, "<a href=\"%s.html\">%s &rarr;</a>", name_at(d, behind),
                name_at(d, behind));
  tn__buf_add(out, "</span>\n</footer>\n");
}

static void write_page(tn__buf *out, const docs *d, size_t i) {
  tn__buf text, title;
  tn__buf_init(&text, tn__env_default());
  tn__buf_init(&title, tn__env_default());
  tn__buf_add(&title, "%s.%s", d->plugin->plugin->name, name_at(d, i));
  docs_page(&text, d, i, 1);
  if (!text.failed && !title.failed) {
    begin_page(out, d, title.s);
    add_nav(out, d, i);
    tn__buf_add(out, "<main>\n");
    html_from_markdown(out, text.s);
    add_footer(out, d, i);
    tn__buf_add(out, "</main>\n");
    end_page(out);
  }
  out->failed |= text.failed || title.failed;
  tn__buf_deinit(&text);
  tn__buf_deinit(&title);
}

/* ------------------------------------------------------------------- search */

/* Adds the search words of a page besides its name and summary. */
static void add_words(tn__buf *out, const tn_op *op) {
  tn__buf text;
  tn__buf_init(&text, tn__env_default());
  tn__buf_add(&text, "%s", op->doc != NULL ? op->doc : "");
  for (uint32_t i = 0; i < op->n_params; ++i)
    tn__buf_add(&text, " %s %s", op->params[i]->name,
                op->params[i]->doc != NULL ? op->params[i]->doc : "");
  for (uint32_t i = 0; i < op->n_inputs; ++i)
    tn__buf_add(&text, " %s", op->inputs[i]->name);
  for (uint32_t i = 0; i < op->n_outputs; ++i)
    if (op->outputs[i]->formula != NULL)
      tn__buf_add(&text, " %s", op->outputs[i]->formula);
  tn__buf_json(out, text.s != NULL ? text.s : "");
  out->failed |= text.failed;
  tn__buf_deinit(&text);
}

static void write_search(tn__buf *out, const docs *d) {
  tn__buf_add(out, "'use strict';\n\nconst index = [\n");
  for (size_t i = 0; i < d->plugin->n_operators; ++i) {
    if (!is_page(d, i)) continue;
    const tn_op *op = d->plugin->operators[i].op;
    tn__buf_add(out, "  {name: ");
    tn__buf_json(out, op->name);
    tn__buf_add(out, ", url: \"%s.html\", summary: ", op->name);
    tn__buf_json(out, op->summary != NULL ? op->summary : "");
    tn__buf_add(out, ", text: ");
    add_words(out, op);
    tn__buf_add(out, "},\n");
  }
  tn__buf_add(out, "];\n%s", search);
}

/* -------------------------------------------------------------------- files */

static bool write_file(const char *folder, const char *name,
                       const tn__buf *text) {
  tn__buf path;
  tn__buf_init(&path, tn__env_default());
  tn__buf_add(&path, "%s/%s", folder, name);
  const bool fine =
      !path.failed && !text->failed && opgen_file_write(path.s, text);
  tn__buf_deinit(&path);
  return fine;
}

static bool write_operator(const docs *d, const char *folder, size_t i) {
  tn__buf text, name;
  tn__buf_init(&text, tn__env_default());
  tn__buf_init(&name, tn__env_default());
  write_page(&text, d, i);
  tn__buf_add(&name, "%s.html", name_at(d, i));
  const bool fine = !name.failed && write_file(folder, name.s, &text);
  tn__buf_deinit(&text);
  tn__buf_deinit(&name);
  return fine;
}

/* Writes the files that do not depend on one operator. */
static bool write_common(const docs *d, const char *folder) {
  tn__buf index, script, css;
  tn__buf_init(&index, tn__env_default());
  tn__buf_init(&script, tn__env_default());
  tn__buf_init(&css, tn__env_default());
  write_index(&index, d);
  write_search(&script, d);
  tn__buf_add(&css, "%s", style);
  const bool fine = write_file(folder, "index.html", &index) &&
                    write_file(folder, "search.js", &script) &&
                    write_file(folder, "style.css", &css);
  tn__buf_deinit(&index);
  tn__buf_deinit(&script);
  tn__buf_deinit(&css);
  return fine;
}

bool docs_site(const docs *d, const char *folder) {
  if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
    fprintf(stderr, "opgen: cannot make %s: %s\n", folder, strerror(errno));
    return false;
  }
  bool fine = write_common(d, folder);
  for (size_t i = 0; i < d->plugin->n_operators && fine; ++i)
    if (is_page(d, i)) fine = write_operator(d, folder, i);
  return fine;
}
