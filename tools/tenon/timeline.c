/* SPDX-License-Identifier: Apache-2.0
 * timeline.c: draws a program's memory over time: steps from left to right, the
 * bytes of each pool upwards, and a rectangle for each storage from the step
 * that writes it first to the last that uses it. Workspaces are hatched. A
 * rectangle shows its description under the pointer.
 */
#include <inttypes.h>

#include "picture.h"

enum { MOST_STEPS = 20000, COLOURS = 8 };
#define LEFT 90.0
#define TOP 30.0
#define HEIGHT 420.0
#define WIDTH 1000.0

/* The JSON of a program. */
typedef struct memory {
  const json *program;
  const json **steps;
  uint32_t n_steps;
  uint32_t n_forward;
} memory;

/* The panel of one device. */
typedef struct panel {
  const memory *m;
  uint64_t device;
  uint64_t bytes;
  uint64_t at_least;
  double top;
  double step; /* pixels per step */
  double byte;
} panel;

/* Steps [first, last], bytes [offset, offset + bytes). */
typedef struct area {
  uint32_t first;
  uint32_t last;
  uint64_t offset;
  uint64_t bytes;
} area;

static uint64_t number_of(const json *object, const char *key) {
  return json_number(json_get(object, key));
}

static const char *step_name(const panel *at, uint32_t step) {
  return json_text(json_get(at->m->steps[step], "node"));
}

static void add_area(const panel *at, const area *a, const char *fill,
                     text *out) {
  const double end = (double)(a->offset + a->bytes) * at->byte;
  text_add(out, "<rect");
  picture_add_attribute("x", LEFT + a->first * at->step, out);
  picture_add_attribute("y", at->top + HEIGHT - end, out);
  picture_add_attribute("width", (double)(a->last - a->first + 1) * at->step,
                        out);
  picture_add_attribute("height", (double)a->bytes * at->byte, out);
  text_add(out, " fill=\"%s\"><title>", fill);
}

static void end_area(const panel *at, const area *a, text *out) {
  text_add(out, "\n");
  picture_add_bytes(a->bytes, out);
  text_add(out, " at %" PRIu64 "\nsteps %" PRIu32 " to %" PRIu32 ": ",
           a->offset, a->first, a->last);
  picture_add_xml(step_name(at, a->first), out);
  text_add(out, " to ");
  picture_add_xml(step_name(at, a->last), out);
  text_add(out, "</title></rect>\n");
}

static void add_storage(const panel *at, const json *storage, size_t i,
                        text *out) {
  static const char *const colours[COLOURS] = {"#7aa6d6", "#e0a86c", "#8fbf8a",
                                               "#cf8f9d", "#a99bd0", "#c9bd6b",
                                               "#79bdbb", "#b3a08f"};
  const uint32_t n = at->m->n_steps;
  const uint64_t last = number_of(storage, "last");
  area a = {(uint32_t)number_of(storage, "first"),
            last < n ? (uint32_t)last : n - 1, number_of(storage, "offset"),
            number_of(storage, "bytes")};
  if (number_of(storage, "device") != at->device || a.bytes == 0 ||
      a.first >= n)
    return;
  if (a.last < a.first) a.last = a.first;
  add_area(at, &a, colours[i % COLOURS], out);
  text_add(out, "results");
  end_area(at, &a, out);
}

static void add_workspace(const panel *at, uint32_t step, text *out) {
  const json *workspace = json_get(at->m->steps[step], "workspace");
  const area a = {step, step, number_of(workspace, "offset"),
                  number_of(workspace, "bytes")};
  if (a.bytes == 0 || number_of(at->m->steps[step], "device") != at->device)
    return;
  add_area(at, &a, "url(#hatch)", out);
  text_add(out, "workspace");
  end_area(at, &a, out);
}

/* Draws a horizontal line, labelled with its number of bytes. */
static void add_level(const panel *at, uint64_t bytes, const char *what,
                      text *out) {
  const double y = at->top + HEIGHT - (double)bytes * at->byte;
  text_add(out, "<path");
  text_add(out, " d=\"M");
  picture_add_number(LEFT, out);
  text_add(out, " ");
  picture_add_number(y, out);
  text_add(out, "H");
  picture_add_number(LEFT + WIDTH, out);
  text_add(out, "\"/>\n<text");
  picture_add_attribute("x", LEFT + WIDTH, out);
  picture_add_attribute("y", y - 3, out);
  text_add(out, " text-anchor=\"end\">%s ", what);
  picture_add_bytes(bytes, out);
  text_add(out, "</text>\n");
}

/* Marks the begin of the backward part. */
static void add_turn(const panel *at, text *out) {
  const memory *m = at->m;
  const double x = LEFT + m->n_forward * at->step;
  if (m->n_forward == 0 || m->n_forward == m->n_steps) return;
  text_add(out, "<path d=\"M");
  picture_add_number(x, out);
  text_add(out, " ");
  picture_add_number(at->top, out);
  text_add(out, "V");
  picture_add_number(at->top + HEIGHT, out);
  text_add(out, "\"/>\n<text");
  picture_add_attribute("x", x + 4, out);
  picture_add_attribute("y", at->top + 10, out);
  text_add(out, ">backward</text>\n");
}

/* The name of a device; NULL: there is no other one. */
static const char *device_text(const panel *at) {
  const json *devices = json_get(at->m->program, "devices");
  const json *each = json_first(devices);
  if (!devices || devices->n < 2) return NULL;
  for (uint64_t i = 0; each && i < at->device; ++i) each = each->next;
  return json_text(each);
}

static void add_panel(const panel *at, text *out) {
  size_t i = 0;
  const char *device = device_text(at);
  for (const json *each = json_first(json_get(at->m->program, "storages"));
       each; each = each->next)
    add_storage(at, each, i++, out);
  for (uint32_t step = 0; step < at->m->n_steps; ++step)
    add_workspace(at, step, out);
  add_turn(at, out);
  add_level(at, at->bytes, "pool", out);
  if (at->at_least < at->bytes) add_level(at, at->at_least, "at least", out);
  text_add(out, "<text");
  picture_add_attribute("x", LEFT, out);
  picture_add_attribute("y", at->top + HEIGHT + 14, out);
  text_add(out, ">%" PRIu32 " steps", at->m->n_steps);
  if (device) text_add(out, ", memory of %s", device);
  text_add(out, "</text>\n");
}

static void add_head(double height, text *out) {
  text_add(out, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
  picture_add_attribute("width", LEFT + WIDTH + 20, out);
  picture_add_attribute("height", height, out);
  text_add(out,
           ">\n<style>text{font:11px monospace;fill:#222}"
           "rect{stroke:#fff;stroke-width:.3}"
           "path{fill:none;stroke:#a03020;stroke-dasharray:4 3}</style>\n"
           "<defs><pattern id=\"hatch\" width=\"4\" height=\"4\" "
           "patternUnits=\"userSpaceOnUse\"><path d=\"M0 4L4 0\" "
           "style=\"stroke:#555;stroke-dasharray:none\"/></pattern></defs>\n"
           "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
}

static void draw_panels(const memory *m, text *out) {
  const json *pools = json_get(m->program, "pools");
  double top = TOP;
  add_head(TOP + (pools ? pools->n : 0) * (HEIGHT + 60), out);
  for (const json *each = json_first(pools); each; each = each->next) {
    const uint64_t bytes = number_of(each, "bytes");
    const panel at = {.m = m,
                      .device = number_of(each, "device"),
                      .bytes = bytes,
                      .at_least = number_of(each, "at_least"),
                      .top = top,
                      .step = WIDTH / m->n_steps,
                      .byte = bytes ? HEIGHT / (double)bytes : 0};
    add_panel(&at, out);
    top += HEIGHT + 60;
  }
  text_add(out, "</svg>\n");
}

bool timeline_draw(const json *program, text *out, text *why) {
  json_tree list = {0};
  const json *steps = json_get(program, "steps");
  memory m = {.program = program,
              .n_forward = (uint32_t)number_of(program, "n_forward")};
  const uint32_t n = steps ? steps->n : 0;
  if (n > MOST_STEPS)
    return report_failure(why,
                          "the program has %" PRIu32
                          " steps, and a picture shows at most %d; use the "
                          "table of `tenon graph plan`",
                          n, MOST_STEPS);
  if (n == 0)
    return report_failure(why, "the program has no steps to be drawn");
  m.steps = (const json **)json_alloc(&list, n, sizeof(const json *));
  if (!m.steps) return report_failure(why, "out of memory");
  for (const json *each = json_first(steps); each; each = each->next)
    m.steps[m.n_steps++] = each;
  draw_panels(&m, out);
  json_tree_deinit(&list);
  return true;
}
