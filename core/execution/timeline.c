/* SPDX-License-Identifier: Apache-2.0
 * timeline.c: draws a program's memory over time: steps from left to right, the
 * bytes of each pool upwards, and a rectangle for each storage from the step
 * that writes it first to the last that uses it. Workspaces are hatched. A
 * rectangle shows its description under the pointer.
 */
#include <inttypes.h>
#include <string.h>

#include "picture.h"
#include "program.h"

enum { MOST_STEPS = 20000, COLOURS = 8 };
#define LEFT 90.0
#define TOP 30.0
#define HEIGHT 420.0
#define WIDTH 1000.0

/* The panel of one device. */
typedef struct panel {
  const tn_program *p;
  const tn__plan_pool *pool;
  double top;
  double step; /* pixels per step */
  double byte;
} panel;

static void write_attribute(const char *key, double value, tn__buf *out) {
  tn__buf_add(out, " %s=\"", key);
  tn__picture_number(value, out);
  tn__buf_add(out, "\"");
}

/* Steps [first, last], bytes [offset, offset + bytes). */
typedef struct area {
  uint32_t first;
  uint32_t last;
  size_t offset;
  size_t bytes;
} area;

static void add_area(const panel *at, const area *a, const char *fill,
                     tn__buf *out) {
  const double end = (double)(a->offset + a->bytes) * at->byte;
  tn__buf_add(out, "<rect");
  write_attribute("x", LEFT + a->first * at->step, out);
  write_attribute("y", at->top + HEIGHT - end, out);
  write_attribute("width", (double)(a->last - a->first + 1) * at->step, out);
  write_attribute("height", (double)a->bytes * at->byte, out);
  tn__buf_add(out, " fill=\"%s\"><title>", fill);
}

static void end_area(const panel *at, const area *a, tn__buf *out) {
  tn__buf_add(out, "\n");
  tn__picture_bytes(a->bytes, out);
  tn__buf_add(out, " at %zu\nsteps %" PRIu32 " to %" PRIu32 ": ", a->offset,
              a->first, a->last);
  tn__picture_xml(at->p->steps[a->first]->node->name, out);
  tn__buf_add(out, " to ");
  tn__picture_xml(at->p->steps[a->last]->node->name, out);
  tn__buf_add(out, "</title></rect>\n");
}

static void add_storage(const panel *at, size_t i, tn__buf *out) {
  static const char *const colours[COLOURS] = {"#7aa6d6", "#e0a86c", "#8fbf8a",
                                               "#cf8f9d", "#a99bd0", "#c9bd6b",
                                               "#79bdbb", "#b3a08f"};
  const tn_program *p = at->p;
  const tn__plan_storage *storage = &p->plan.storages[i];
  const uint32_t n = p->n_steps;
  area a = {storage->first, storage->last < n ? storage->last : n - 1,
            storage->offset, storage->bytes};
  if (storage->device != at->pool->device || storage->bytes == 0 ||
      a.first >= n)
    return;
  if (a.last < a.first) a.last = a.first;
  add_area(at, &a, colours[i % COLOURS], out);
  tn__buf_add(out, "results");
  end_area(at, &a, out);
}

static void add_workspace(const panel *at, const tn__step *step, tn__buf *out) {
  const area a = {step->id, step->id, at->p->plan.workspaces[step->id],
                  step->info.workspace};
  if (a.bytes == 0 ||
      tn__device_number(at->p, step->device) != at->pool->device)
    return;
  add_area(at, &a, "url(#hatch)", out);
  tn__buf_add(out, "workspace");
  end_area(at, &a, out);
}

/* Draws a horizontal line, labelled with its number of bytes. */
static void add_level(const panel *at, size_t bytes, const char *what,
                      tn__buf *out) {
  const double y = at->top + HEIGHT - (double)bytes * at->byte;
  tn__buf_add(out, "<path");
  tn__buf_add(out, " d=\"M");
  tn__picture_number(LEFT, out);
  tn__buf_add(out, " ");
  tn__picture_number(y, out);
  tn__buf_add(out, "H");
  tn__picture_number(LEFT + WIDTH, out);
  tn__buf_add(out, "\"/>\n<text");
  write_attribute("x", LEFT + WIDTH, out);
  write_attribute("y", y - 3, out);
  tn__buf_add(out, " text-anchor=\"end\">%s ", what);
  tn__picture_bytes(bytes, out);
  tn__buf_add(out, "</text>\n");
}

/* Marks the begin of the backward part. */
static void add_turn(const panel *at, tn__buf *out) {
  const tn_program *p = at->p;
  const double x = LEFT + p->n_forward * at->step;
  if (p->n_forward == 0 || p->n_forward == p->n_steps) return;
  tn__buf_add(out, "<path d=\"M");
  tn__picture_number(x, out);
  tn__buf_add(out, " ");
  tn__picture_number(at->top, out);
  tn__buf_add(out, "V");
  tn__picture_number(at->top + HEIGHT, out);
  tn__buf_add(out, "\"/>\n<text");
  write_attribute("x", x + 4, out);
  write_attribute("y", at->top + 10, out);
  tn__buf_add(out, ">backward</text>\n");
}

static void add_panel(const panel *at, tn__buf *out) {
  char device[TN__DEVICE_TEXT];
  const tn_program *p = at->p;
  for (size_t i = 0; i < p->plan.n_storages; ++i) add_storage(at, i, out);
  for (uint32_t i = 0; i < p->n_steps; ++i) add_workspace(at, p->steps[i], out);
  add_turn(at, out);
  add_level(at, at->pool->bytes, "pool", out);
  if (at->pool->lower_bound < at->pool->bytes)
    add_level(at, at->pool->lower_bound, "at least", out);
  tn__buf_add(out, "<text");
  write_attribute("x", LEFT, out);
  write_attribute("y", at->top + HEIGHT + 14, out);
  tn__buf_add(out, ">%" PRIu32 " steps", p->n_steps);
  if (p->n_devices > 1)
    tn__buf_add(out, ", memory of %s",
                tn__device_text(p->devices[at->pool->device], device));
  tn__buf_add(out, "</text>\n");
}

static void draw_timeline(const tn_program *p, tn__buf *out) {
  tn__buf_add(out, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
  write_attribute("width", LEFT + WIDTH + 20, out);
  write_attribute("height", TOP + (double)p->plan.n_pools * (HEIGHT + 60), out);
  tn__buf_add(out,
              ">\n<style>text{font:11px monospace;fill:#222}"
              "rect{stroke:#fff;stroke-width:.3}"
              "path{fill:none;stroke:#a03020;stroke-dasharray:4 3}</style>\n"
              "<defs><pattern id=\"hatch\" width=\"4\" height=\"4\" "
              "patternUnits=\"userSpaceOnUse\"><path d=\"M0 4L4 0\" "
              "style=\"stroke:#555;stroke-dasharray:none\"/></pattern></defs>\n"
              "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
  for (size_t i = 0; i < p->plan.n_pools; ++i) {
    const tn__plan_pool *pool = &p->plan.pools[i];
    const panel at = {.p = p,
                      .pool = pool,
                      .top = TOP + (double)i * (HEIGHT + 60),
                      .step = WIDTH / p->n_steps,
                      .byte = pool->bytes ? HEIGHT / (double)pool->bytes : 0};
    add_panel(&at, out);
  }
  tn__buf_add(out, "</svg>\n");
}

tn_code tn__program_picture(const tn_program *p, tn_text **out) {
  tn__buf text;
  *out = NULL;
  if (p->n_steps > MOST_STEPS)
    return tn__fail(TN_UNSUPPORTED,
                    "the program has %" PRIu32
                    " steps, and a picture shows at most %d; use the table of "
                    "tn_program_text",
                    p->n_steps, MOST_STEPS);
  if (p->n_steps == 0)
    return tn__fail(TN_UNSUPPORTED, "the program has no steps to be drawn");
  tn__buf_init(&text, p->env);
  draw_timeline(p, &text);
  return tn__buf_text(&text, out);
}
