/* SPDX-License-Identifier: Apache-2.0
 * Reads pages from files, computes a number from each, and writes the numbers
 * to one file. The three steps of different pages overlap, without a lock or a
 * thread of the program. It finds the overlap in the engine's own trace.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/engine.h>
#include <unistd.h>

enum { PAGES = 24, SLOTS = 3, VALUES = 1 << 16 };

/* Memory for one page. Three of them are enough for all pages. */
typedef struct slot {
  double values[VALUES];
  double sum;
  tn_variable *of_values; /* orders the uses of `values` */
  tn_variable *of_sum;
} slot;

typedef struct page {
  char path[64];
  slot *slot;
  FILE *to;
} page;

static tn_code read_page(void *arg) {
  page *p = arg;
  FILE *from = fopen(p->path, "rb");
  if (!from)
    return tn_fail(TN_IO, "cannot open %s: %s", p->path, strerror(errno));
  const size_t n = fread(p->slot->values, sizeof(double), VALUES, from);
  fclose(from);
  return n == VALUES ? TN_OK : tn_fail(TN_IO, "%s is too short", p->path);
}

static tn_code compute_sum(void *arg) {
  slot *s = ((page *)arg)->slot;
  for (int round = 0; round < 8; ++round) { /* to take some time */
    s->sum = 0;
    for (int i = 0; i < VALUES; ++i) s->sum += s->values[i];
  }
  return TN_OK;
}

static tn_code write_sum(void *arg) {
  const page *p = arg;
  if (fprintf(p->to, "%.0f\n", p->slot->sum) > 0) return TN_OK;
  return tn_fail(TN_IO, "cannot write a sum: %s", strerror(errno));
}

static tn_code push_read(tn_runtime *rt, page *p) {
  return tn_push(rt, &(tn_job){.struct_size = sizeof(tn_job),
                               .name = "read",
                               .run = read_page,
                               .arg = p,
                               TN_USES({p->slot->of_values, TN_OVERWRITE})});
}

static tn_code push_compute(tn_runtime *rt, page *p) {
  return tn_push(rt, &(tn_job){.struct_size = sizeof(tn_job),
                               .name = "compute",
                               .run = compute_sum,
                               .arg = p,
                               TN_USES({p->slot->of_values, TN_READ},
                                       {p->slot->of_sum, TN_OVERWRITE})});
}

static tn_code push_write(tn_runtime *rt, page *p, tn_variable *of_file) {
  return tn_push(
      rt, &(tn_job){.struct_size = sizeof(tn_job),
                    .name = "write",
                    .run = write_sum,
                    .arg = p,
                    TN_USES({p->slot->of_sum, TN_READ}, {of_file, TN_UPDATE})});
}

/* One job in the trace. */
typedef struct span {
  char name[16];
  double begin, end; /* microseconds */
} span;

static int read_trace(const char *path, span *spans, int max) {
  char line[256];
  int n = 0;
  FILE *trace = fopen(path, "r");
  while (trace && n < max && fgets(line, sizeof line, trace)) {
    const char *times = strstr(line, "\"ts\":");
    double length;
    if (times && sscanf(line, "{\"name\":\"%15[^\"]", spans[n].name) == 1 &&
        sscanf(times, "\"ts\":%lf,\"dur\":%lf", &spans[n].begin, &length) ==
            2) {
      spans[n].end = spans[n].begin + length;
      ++n;
    }
  }
  if (trace) fclose(trace);
  return n;
}

static void print_overlap(const span *spans, int n) {
  int most = 0;
  for (int i = 0; i < n; ++i) {
    int together = 0; /* jobs that run when job i begins */
    for (int k = 0; k < n; ++k)
      together +=
          spans[k].begin <= spans[i].begin && spans[i].begin < spans[k].end;
    if (together > most) most = together;
  }
  printf("%d jobs, %s\n", n, most > 1 ? "overlapped" : "one after the other");
}

static int fail(const char *action) {
  fprintf(stderr, "%s: %s\n", action, strerror(errno));
  return 1;
}

/* Page number i has the values i, i + 1, ... */
static int make_pages(page *pages, const char *folder) {
  static double values[VALUES];
  for (int i = 0; i < PAGES; ++i) {
    for (int k = 0; k < VALUES; ++k) values[k] = i + k;
    snprintf(pages[i].path, sizeof pages[i].path, "%s/page%d", folder, i);
    FILE *to = fopen(pages[i].path, "wb");
    if (!to || fwrite(values, sizeof(double), VALUES, to) != VALUES ||
        fclose(to))
      return fail(pages[i].path);
  }
  return 0;
}

static int check_sums(FILE *file) {
  double sum;
  rewind(file);
  for (int i = 0; i < PAGES; ++i) {
    const double expected = VALUES * (i + (VALUES - 1) / 2.0);
    if (fscanf(file, "%lf", &sum) != 1 || sum != expected)
      return fprintf(stderr, "page %d has another sum\n", i), 1;
  }
  printf("%d sums in the order of the pages\n", PAGES);
  return 0;
}

int main(void) {
  static slot slots[SLOTS];
  static page pages[PAGES];
  static span spans[4 * PAGES];
  char folder[] = "/tmp/overlap_XXXXXX", trace[64];
  tn_runtime *rt = NULL;
  tn_variable *of_file = NULL;
  FILE *file = tmpfile();
  if (!file || !mkdtemp(folder)) return fail("temporary files");
  if (make_pages(pages, folder)) return 1;
  snprintf(trace, sizeof trace, "%s/trace.json", folder);
  const tn_options options = {.struct_size = sizeof options,
                              .workers = 3,
                              .engine = TN_ENGINE_THREADED};
  tn_code rc = tn_runtime_create(&options, &rt);
  if (!rc) rc = tn_variable_create(rt, NULL, NULL, &of_file);
  for (int i = 0; i < SLOTS && !rc; ++i) {
    rc = tn_variable_create(rt, NULL, NULL, &slots[i].of_values);
    if (!rc) rc = tn_variable_create(rt, NULL, NULL, &slots[i].of_sum);
  }
  if (!rc) rc = tn_trace_start(rt);
  for (int i = 0; i < PAGES && !rc; ++i) {
    pages[i].slot = &slots[i % SLOTS];
    pages[i].to = file;
    rc = push_read(rt, &pages[i]);
    if (!rc) rc = push_compute(rt, &pages[i]);
    if (!rc) rc = push_write(rt, &pages[i], of_file);
  }
  if (!rc) rc = tn_variable_wait(of_file);
  if (!rc) rc = tn_trace_write(rt, trace);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  int bad = rc || check_sums(file);
  if (!bad) print_overlap(spans, read_trace(trace, spans, 4 * PAGES));
  for (int i = 0; i < SLOTS; ++i) {
    tn_variable_release(slots[i].of_values);
    tn_variable_release(slots[i].of_sum);
  }
  tn_variable_release(of_file);
  tn_runtime_release(rt);
  for (int i = 0; i < PAGES; ++i) unlink(pages[i].path);
  unlink(trace), rmdir(folder), fclose(file);
  return bad;
}
