/* SPDX-License-Identifier: Apache-2.0
 * picture_svg.c: draws a graph as layers of boxes, from top to bottom. A node
 * is below all nodes that it reads, a variable just above its first reader. A
 * line that crosses layers has a place in each of them, so that it goes between
 * the boxes. The order in a layer follows the mean position of the neighbours,
 * computed a few times down and up. Then the layers are centred, and every item
 * moves towards the mean of its neighbours as far as the others permit.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "picture.h"

enum {
  MOST_NODES = 2000,
  MOST_LAYERS = 64, /* layers in which a line has places */
  SORTS = 4,
  MOVES = 16,
  MOST_LETTERS = 34
};
#define LETTER 6.6 /* width of a letter, in pixels */
#define BOX 46.0
#define ROW 92.0
#define GAP 18.0
#define MARGIN 20.0

/* A box, or a place of a line. */
typedef struct item {
  uint32_t node; /* NO_NODE: place of a line */
  uint32_t layer;
  uint32_t first; /* its first links, by `from` and by `to` */
  uint32_t n_down;
  uint32_t first_up;
  uint32_t n_up;
  double x; /* of its centre */
  double width;
  double wish;
} item;

/* A link between items in consecutive layers, or in layers that are far apart.
 */
typedef struct link {
  uint32_t from;
  uint32_t to;
} link;

typedef struct drawing {
  const drawn_graph *graph;
  json_tree memory;
  item *items; /* items of nodes come first */
  uint32_t n;
  link *links;
  uint32_t n_links;
  uint32_t *down; /* links by `from`, and by `to` */
  uint32_t *up;
  uint32_t n_layers;
  uint32_t *order; /* items by layer, from left to right */
  uint32_t *begin; /* of each layer in `order`; n_layers + 1 */
  bool failed;     /* an allocation did */
} drawing;

/* ------------------------------------------------------------------- layers */

static void layers_find(drawing *d) {
  const uint32_t n = d->graph->n_nodes;
  for (uint32_t id = 0; id < n; ++id) {
    const drawn_node *node = &d->graph->nodes[id];
    uint32_t layer = 0;
    for (uint32_t i = 0; i < node->n_in; ++i) {
      if (node->in[i].node == NO_NODE) continue;
      const uint32_t above = d->items[node->in[i].node].layer + 1;
      if (above > layer) layer = above;
    }
    d->items[id].layer = layer;
    if (layer >= d->n_layers) d->n_layers = layer + 1;
  }
}

/* Moves variables down to just above their first readers. */
static void variables_lower(drawing *d) {
  const uint32_t n = d->graph->n_nodes;
  for (uint32_t id = 0; id < n; ++id)
    d->items[id].first = d->n_layers; /* layer of the first reader,
                                         temporarily */
  for (uint32_t id = 0; id < n; ++id) {
    const drawn_node *node = &d->graph->nodes[id];
    for (uint32_t i = 0; i < node->n_in; ++i) {
      if (node->in[i].node == NO_NODE) continue;
      item *read = &d->items[node->in[i].node];
      if (d->items[id].layer < read->first) read->first = d->items[id].layer;
    }
  }
  for (uint32_t id = 0; id < n; ++id) {
    item *it = &d->items[id];
    if (d->graph->nodes[id].is_variable && it->first < d->n_layers)
      it->layer = it->first - 1;
    it->first = 0;
  }
}

/* -------------------------------------------------------------------- links */

/* The last layer in which the line of a node has a place. */
static void reach_find(const drawing *d, uint32_t *reach) {
  for (uint32_t id = 0; id < d->graph->n_nodes; ++id) {
    const drawn_node *node = &d->graph->nodes[id];
    reach[id] = d->items[id].layer;
    for (uint32_t i = 0; i < node->n_in; ++i) {
      if (node->in[i].node == NO_NODE) continue;
      const uint32_t from = node->in[i].node, to = d->items[id].layer;
      if (to > reach[from] && to - d->items[from].layer <= MOST_LAYERS)
        reach[from] = to;
    }
  }
}

static uint32_t item_add(drawing *d, uint32_t layer) {
  d->items[d->n] = (item){.node = NO_NODE, .layer = layer, .width = 6};
  return d->n++;
}

static void link_add(drawing *d, uint32_t from, uint32_t to) {
  d->links[d->n_links++] = (link){from, to};
}

/* Adds places of lines. They are consecutive in `items`: chain[id] is the
 * first. */
static void chains_add(drawing *d, const uint32_t *reach, uint32_t *chain) {
  const uint32_t n = d->graph->n_nodes;
  for (uint32_t id = 0; id < n; ++id) {
    uint32_t last = id;
    chain[id] = d->n;
    for (uint32_t layer = d->items[id].layer + 1; layer < reach[id]; ++layer) {
      const uint32_t next = item_add(d, layer);
      link_add(d, last, next);
      last = next;
    }
  }
}

static void links_add(drawing *d, const uint32_t *chain) {
  for (uint32_t id = 0; id < d->graph->n_nodes; ++id) {
    const drawn_node *node = &d->graph->nodes[id];
    for (uint32_t i = 0; i < node->n_in; ++i) {
      if (node->in[i].node == NO_NODE) continue;
      const uint32_t from = node->in[i].node;
      const uint32_t apart = d->items[id].layer - d->items[from].layer;
      const bool direct = apart < 2 || apart > MOST_LAYERS;
      link_add(d, direct ? from : chain[from] + apart - 2, id);
    }
  }
}

static void *alloc_array(drawing *d, size_t n, size_t each) {
  void *data = json_alloc(&d->memory, n + 1, each);
  d->failed = d->failed || !data;
  return data;
}

/* Finds the first links of each item in `down` and `up`. */
static void links_sort(drawing *d) {
  for (uint32_t i = 0; i < d->n_links; ++i) {
    ++d->items[d->links[i].from].n_down;
    ++d->items[d->links[i].to].n_up;
  }
  uint32_t down = 0, up = 0;
  for (uint32_t i = 0; i < d->n; ++i) {
    item *it = &d->items[i];
    it->first = down, it->first_up = up;
    down += it->n_down, up += it->n_up;
    it->n_down = it->n_up = 0;
  }
  for (uint32_t i = 0; i < d->n_links; ++i) {
    item *from = &d->items[d->links[i].from], *to = &d->items[d->links[i].to];
    d->down[from->first + from->n_down++] = d->links[i].to;
    d->up[to->first_up + to->n_up++] = d->links[i].from;
  }
}

static bool links_make(drawing *d) {
  const uint32_t n = d->graph->n_nodes;
  size_t places = n, links = 0;
  uint32_t *reach = alloc_array(d, n, sizeof *reach);
  uint32_t *chain = alloc_array(d, n, sizeof *chain);
  if (d->failed) return false;
  reach_find(d, reach);
  for (uint32_t id = 0; id < n; ++id) {
    const drawn_node *node = &d->graph->nodes[id];
    if (reach[id] > d->items[id].layer)
      places += reach[id] - d->items[id].layer - 1;
    links += node->n_in;
  }
  links += places;
  item *items = alloc_array(d, places, sizeof *items);
  d->links = alloc_array(d, links, sizeof *d->links);
  d->down = alloc_array(d, links, sizeof *d->down);
  d->up = alloc_array(d, links, sizeof *d->up);
  d->order = alloc_array(d, places, sizeof *d->order);
  d->begin = alloc_array(d, (size_t)d->n_layers + 1, sizeof *d->begin);
  if (d->failed) return false;
  memcpy(items, d->items, n * sizeof *items);
  d->items = items;
  d->n = n;
  chains_add(d, reach, chain);
  links_add(d, chain);
  links_sort(d);
  return true;
}

/* -------------------------------------------------------------------- order */

static void order_begin(drawing *d) {
  for (uint32_t i = 0; i < d->n; ++i) ++d->begin[d->items[i].layer + 1];
  for (uint32_t l = 0; l < d->n_layers; ++l) d->begin[l + 1] += d->begin[l];
  uint32_t *next = d->begin; /* moved, then moved back */
  for (uint32_t i = 0; i < d->n; ++i) d->order[next[d->items[i].layer]++] = i;
  for (uint32_t l = d->n_layers; l > 0; --l) d->begin[l] = d->begin[l - 1];
  d->begin[0] = 0;
}

/* The mean of the neighbours on one side; the own position if there are none.
 */
static double middle_of(const drawing *d, const item *it, bool from_above) {
  const uint32_t *list =
      from_above ? d->up + it->first_up : d->down + it->first;
  const uint32_t n = from_above ? it->n_up : it->n_down;
  double sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += d->items[list[i]].x;
  return n > 0 ? sum / n : it->x;
}

/* An item, and its sort key; the order of equal ones stays. */
typedef struct rank {
  double wish;
  uint32_t at;
  uint32_t item;
} rank;

static int by_wish(const void *a, const void *b) {
  const rank *x = a, *y = b;
  if (x->wish != y->wish) return x->wish < y->wish ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at);
}

static void layer_sort(drawing *d, uint32_t layer, bool from_above,
                       rank *ranks) {
  uint32_t *order = d->order + d->begin[layer];
  const uint32_t n = d->begin[layer + 1] - d->begin[layer];
  for (uint32_t i = 0; i < n; ++i)
    ranks[i] =
        (rank){middle_of(d, &d->items[order[i]], from_above), i, order[i]};
  qsort(ranks, n, sizeof *ranks, by_wish);
  for (uint32_t i = 0; i < n; ++i) order[i] = ranks[i].item;
}

static double distance_between(const item *a, const item *b) {
  return (a->width + b->width) / 2 + GAP;
}

/* Moves every item as near to its wish as its order permits: if two solutions
 * keep the distances, their mean does as well. */
static void layer_place(drawing *d, uint32_t layer) {
  const uint32_t *order = d->order + d->begin[layer];
  const uint32_t n = d->begin[layer + 1] - d->begin[layer];
  for (uint32_t i = 0; i < n; ++i) {
    item *it = &d->items[order[i]];
    it->x = it->wish;
    if (i == 0) continue;
    const item *left = &d->items[order[i - 1]];
    if (it->x < left->x + distance_between(left, it))
      it->x = left->x + distance_between(left, it);
  }
  double right = 0;
  for (uint32_t i = n; i > 0; --i) {
    item *it = &d->items[order[i - 1]];
    double x = it->wish;
    if (i < n) {
      const double most = right - distance_between(it, &d->items[order[i]]);
      if (x > most) x = most;
    }
    right = x;
    it->x = (it->x + x) / 2;
  }
}

static void layer_wish(drawing *d, uint32_t layer, bool up, bool down) {
  for (uint32_t i = d->begin[layer]; i < d->begin[layer + 1]; ++i) {
    item *it = &d->items[d->order[i]];
    const double n = (up ? it->n_up : 0) + (down ? it->n_down : 0);
    it->wish = it->x;
    if (n > 0)
      it->wish = ((up ? middle_of(d, it, true) * it->n_up : 0) +
                  (down ? middle_of(d, it, false) * it->n_down : 0)) /
                 n;
  }
}

/* Sorts all layers down, then up. */
static void sort_ranks(drawing *d, rank *ranks) {
  for (int up = 0; up < 2; ++up)
    for (uint32_t l = 0; l < d->n_layers; ++l) {
      const uint32_t layer = up ? d->n_layers - 1 - l : l;
      layer_sort(d, layer, !up, ranks);
      layer_wish(d, layer, !up, up);
      layer_place(d, layer);
    }
}

static void layer_centre(drawing *d, uint32_t layer) {
  const uint32_t begin = d->begin[layer], end = d->begin[layer + 1];
  if (begin == end) return;
  const double middle =
      (d->items[d->order[begin]].x + d->items[d->order[end - 1]].x) / 2;
  for (uint32_t i = begin; i < end; ++i) d->items[d->order[i]].x -= middle;
}

static void move_items(drawing *d) {
  for (int up = 0; up < 2; ++up)
    for (uint32_t l = 0; l < d->n_layers; ++l) {
      const uint32_t layer = up ? d->n_layers - 1 - l : l;
      layer_wish(d, layer, true, true);
      layer_place(d, layer);
    }
}

static void to_the_left(drawing *d) {
  double least = 1e300;
  for (uint32_t i = 0; i < d->n; ++i) {
    const double left = d->items[i].x - d->items[i].width / 2;
    if (left < least) least = left;
  }
  for (uint32_t i = 0; i < d->n; ++i) d->items[i].x += MARGIN - least;
}

static bool places_find(drawing *d) {
  rank *ranks = alloc_array(d, d->n, sizeof *ranks);
  if (d->failed) return false;
  order_begin(d);
  for (uint32_t i = 0; i < d->n; ++i) d->items[d->order[i]].wish = i;
  for (uint32_t l = 0; l < d->n_layers; ++l) layer_place(d, l);
  for (int k = 0; k < SORTS; ++k) sort_ranks(d, ranks);
  for (uint32_t l = 0; l < d->n_layers; ++l) layer_centre(d, l);
  for (int k = 0; k < MOVES; ++k) move_items(d);
  to_the_left(d);
  return true;
}

/* -------------------------------------------------------------------- boxes */

static void cut_text(text *line) {
  if (line->failed || line->n <= MOST_LETTERS) return;
  line->n = MOST_LETTERS - 2;
  text_add(line, "..");
}

/* The lines of text in a node's box. */
typedef struct lines {
  text v[3];
} lines;

static void lines_init(const drawn_node *node, lines *to) {
  const uint32_t n = node->n_visible;
  *to = (lines){0};
  text_add(&to->v[0], "%s", node->name);
  picture_add_operator(node, &to->v[1]);
  if (n > 0) picture_add_signature(node->out[0], &to->v[2]);
  if (n > 1) text_add(&to->v[2], " +%" PRIu32, n - 1);
  for (int i = 0; i < 3; ++i) cut_text(&to->v[i]);
}

static bool lines_deinit(lines *l) {
  bool failed = false;
  for (int i = 0; i < 3; ++i) {
    failed = failed || l->v[i].failed;
    text_deinit(&l->v[i]);
  }
  return !failed;
}

static bool widths_find(drawing *d) {
  bool ok = true;
  for (uint32_t id = 0; ok && id < d->graph->n_nodes; ++id) {
    lines l;
    size_t most = 6;
    lines_init(&d->graph->nodes[id], &l);
    for (int i = 0; i < 3; ++i)
      if (l.v[i].n > most) most = l.v[i].n;
    d->items[id].width = (double)most * LETTER + 14;
    ok = lines_deinit(&l);
  }
  return ok;
}

static double top_of(const item *it) {
  return MARGIN + it->layer * ROW;
}

static const char *fill_of(const drawn_node *node) {
  if (node->is_state) return "#f6e3c5";
  if (node->is_variable) return "#f4f4f0";
  if (node->is_gradient) return "#f7dcd9";
  return node->inner ? "#dcefdc" : "#dbe8f6";
}

static void add_box(const drawing *d, uint32_t id, text *out) {
  const item *it = &d->items[id];
  const drawn_node *node = &d->graph->nodes[id];
  lines l;
  lines_init(node, &l);
  text_add(out, "<rect");
  picture_add_attribute("x", it->x - it->width / 2, out);
  picture_add_attribute("y", top_of(it), out);
  picture_add_attribute("width", it->width, out);
  picture_add_attribute("height", BOX, out);
  text_add(out, " rx=\"%d\" fill=\"%s\"/>\n", node->is_variable ? 12 : 3,
           fill_of(node));
  for (int i = 0; i < 3; ++i) {
    if (l.v[i].n == 0) continue;
    text_add(out, "<text");
    picture_add_attribute("x", it->x, out);
    picture_add_attribute("y", top_of(it) + 14 + 13 * i, out);
    text_add(out, "%s>", i == 0 ? " class=\"name\"" : "");
    picture_add_xml(text_get(&l.v[i]), out);
    text_add(out, "</text>\n");
  }
  if (!lines_deinit(&l)) out->failed = true;
}

/* Draws a curve from the lower end of one item to the upper end of another. */
static void add_link(const drawing *d, const link *l, text *out) {
  const item *from = &d->items[l->from], *to = &d->items[l->to];
  const double y0 = top_of(from) + BOX, y1 = top_of(to), half = (y1 - y0) / 2;
  const double numbers[] = {from->x, y0,        from->x, y0 + half,
                            to->x,   y1 - half, to->x,   y1};
  text_add(out, "<path d=\"");
  for (int i = 0; i < 8; ++i) {
    text_add(out, "%s", i == 0 ? "M" : i == 2 ? "C" : " ");
    picture_add_number(numbers[i], out);
  }
  if (to->node == NO_NODE) { /* through the place of the line */
    text_add(out, "V");
    picture_add_number(y1 + BOX, out);
  }
  text_add(out, "\"%s/>\n",
           to->node == NO_NODE ? "" : " marker-end=\"url(#arrow)\"");
}

static void add_heads(const drawing *d, text *out) {
  for (uint32_t i = 0; i < d->graph->n_heads; ++i) {
    if (d->graph->heads[i].node == NO_NODE) continue;
    const item *it = &d->items[d->graph->heads[i].node];
    text_add(out, "<text class=\"head\"");
    picture_add_attribute("x", it->x, out);
    picture_add_attribute("y", top_of(it) + BOX + 12, out);
    text_add(out, ">head %" PRIu32 "</text>\n", i);
  }
}

static void add_all(const drawing *d, text *out) {
  double width = 0;
  for (uint32_t i = 0; i < d->n; ++i) {
    const double right = d->items[i].x + d->items[i].width / 2 + MARGIN;
    if (right > width) width = right;
  }
  text_add(out, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
  picture_add_attribute("width", width, out);
  picture_add_attribute("height", d->n_layers * ROW + 2 * MARGIN, out);
  text_add(out,
           ">\n<style>text{font:11px monospace;text-anchor:middle;fill:#222}"
           ".name{font-weight:bold}.head{fill:#b03020}"
           "rect{stroke:#667;stroke-width:1}"
           "path{fill:none;stroke:#889;stroke-width:1.2}</style>\n"
           "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" "
           "refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
           "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" "
           "style=\"fill:#889;stroke:none\"/></marker></defs>\n"
           "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\" "
           "style=\"stroke:none\"/>\n");
  for (uint32_t i = 0; i < d->n_links; ++i) add_link(d, &d->links[i], out);
  for (uint32_t id = 0; id < d->graph->n_nodes; ++id) add_box(d, id, out);
  add_heads(d, out);
  text_add(out, "</svg>\n");
}

/* ------------------------------------------------------------------- picture
 */

static bool draw_picture(drawing *d, text *out) {
  const uint32_t n = d->graph->n_nodes;
  d->items = alloc_array(d, n, sizeof *d->items);
  if (d->failed) return false;
  for (uint32_t id = 0; id < n; ++id) d->items[id].node = id;
  layers_find(d);
  variables_lower(d);
  if (!widths_find(d) || !links_make(d) || !places_find(d)) return false;
  add_all(d, out);
  return true;
}

bool picture_draw_svg(const drawn_graph *graph, text *out, text *why) {
  drawing d = {.graph = graph};
  if (graph->n_nodes > MOST_NODES)
    return report_failure(
        why,
        "the graph has %" PRIu32
        " nodes, and a picture shows at most %d: print the table, "
        "use Graphviz, or copy a part of the graph with other "
        "heads",
        graph->n_nodes, MOST_NODES);
  const bool ok = draw_picture(&d, out);
  json_tree_deinit(&d.memory);
  return ok || report_failure(why, "out of memory");
}
