/* SPDX-License-Identifier: Apache-2.0
 * fake_nccl_work.c: exchanges of the simulated NCCL: their commands on the
 * streams of ranks, and the values. Sums are computed in f64 or with integers
 * of 64 bits, in the order of ranks, and rounded once.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fake_nccl_parts.h"
#include "tenon/kernel/kernel.h"

/* By the numbers of ncclDataType_t: i8, u8, i32, u32, i64, u64, f16, f32, f64,
 * bf16. */
static const int widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
enum { N_TYPES = 10, I8 = 0, I32 = 2, I64 = 4, F16 = 6, F32, F64, BF16 };
enum { SUM, PROD, MAX, MIN, AVG, N_OPS }; /* ncclRedOp_t */

/* ------------------------------------------------------------------- values */

static double read_float(const char *at, int type) {
  float f;
  double d;
  uint16_t h;
  memcpy(&h, at, sizeof h);
  if (type == F16) return (double)tn_kernel_f16_to_f32(h);
  if (type == BF16) return (double)tn_kernel_bf16_to_f32(h);
  if (type == F32) return (double)*(float *)memcpy(&f, at, sizeof f);
  return *(double *)memcpy(&d, at, sizeof d);
}

static void write_float(char *at, int type, double value) {
  const float f = (float)value;
  const uint16_t h =
      type == F16 ? tn_kernel_f32_to_f16(f) : tn_kernel_f32_to_bf16(f);
  if (type == F16 || type == BF16) memcpy(at, &h, sizeof h);
  if (type == F32) memcpy(at, &f, sizeof f);
  if (type == F64) memcpy(at, &value, sizeof value);
}

/* Integers are little-endian; signed ones are extended by their sign. */
static uint64_t read_integer(const char *at, int type) {
  uint64_t bits = 0;
  memcpy(&bits, at, (size_t)widths[type]);
  const uint64_t sign = (uint64_t)1 << (8 * widths[type] - 1);
  if (type == I8 || type == I32) bits = (bits ^ sign) - sign;
  return bits;
}

static double reduce_floats(double a, double b, int op) {
  if (op == PROD) return a * b;
  if (op == MAX) return fmax(a, b); /* as NCCL, not NaN if one is */
  if (op == MIN) return fmin(a, b);
  return a + b;
}

static uint64_t reduce_integers(uint64_t a, uint64_t b, int op, int type) {
  const int is_signed = type == I8 || type == I32 || type == I64;
  const int is_less = is_signed ? (int64_t)a < (int64_t)b : a < b;
  if (op == PROD) return a * b;
  if (op == MAX) return is_less ? b : a;
  if (op == MIN) return is_less ? a : b;
  return a + b;
}

static int is_float(int type) {
  return type >= F16;
}

/* Writes element i of the reduction over ranks to `to`. */
static void reduce_element(const fake_round *r, int size, size_t i, char *to) {
  const size_t at = i * (size_t)widths[r->type];
  if (is_float(r->type)) {
    double sum = read_float(r->inputs[0] + at, r->type);
    for (int k = 1; k < size; ++k)
      sum = reduce_floats(sum, read_float(r->inputs[k] + at, r->type), r->op);
    write_float(to, r->type, r->op == AVG ? sum / size : sum);
    return;
  }
  uint64_t sum = read_integer(r->inputs[0] + at, r->type);
  for (int k = 1; k < size; ++k)
    sum = reduce_integers(sum, read_integer(r->inputs[k] + at, r->type), r->op,
                          r->type);
  memcpy(to, &sum, (size_t)widths[r->type]);
}

static void compute(const fake_exchange *e, char *to) {
  const fake_round *r = e->round;
  const int size = e->comm->world->size;
  const size_t bytes = e->n * (size_t)widths[e->type];
  const size_t first =
      e->kind == FAKE_REDUCE_SCATTER ? e->n * (size_t)e->comm->rank : 0;
  if (e->kind == FAKE_ALL_GATHER) {
    for (int k = 0; k < size; ++k)
      memcpy(to + (size_t)k * bytes, r->inputs[k], bytes);
  } else if (e->kind == FAKE_BROADCAST || e->kind == FAKE_RECV) {
    memcpy(to, r->inputs[e->peer], bytes);
  } else {
    for (size_t i = 0; i < e->n; ++i)
      reduce_element(r, size, first + i, to + i * (size_t)widths[e->type]);
  }
}

/* ------------------------------------------------------------------- rounds */

static int is_message(const fake_exchange *e) {
  return e->kind == FAKE_SEND || e->kind == FAKE_RECV;
}

/* The ranks and the position that a round has for this exchange. */
static fake_round describe_round(fake_exchange *e) {
  fake_comm *c = e->comm;
  fake_round r = {.source = -1,
                  .target = -1,
                  .kind = e->kind,
                  .type = e->type,
                  .op = e->op,
                  .peer = e->peer,
                  .n = e->n};
  if (!is_message(e)) {
    r.position = c->position++;
    return r;
  }
  const int sends = e->kind == FAKE_SEND;
  r.kind = FAKE_SEND;
  r.peer = -1;
  r.source = sends ? c->rank : e->peer;
  r.target = sends ? e->peer : c->rank;
  r.position = sends ? c->n_sent[e->peer]++ : c->n_received[e->peer]++;
  return r;
}

static int is_same_call(const fake_round *a, const fake_round *b) {
  return a->kind == b->kind && a->type == b->type && a->op == b->op &&
         a->peer == b->peer && a->n == b->n;
}

/* Finds or adds the round. */
static int find_round(fake_exchange *e) {
  fake_world *w = e->comm->world;
  fake_nccl_lock();
  const fake_round wanted = describe_round(e);
  fake_round *r = w->rounds;
  while (r && (r->position != wanted.position || r->source != wanted.source ||
               r->target != wanted.target))
    r = r->next;
  const int is_equal = !r || is_same_call(r, &wanted);
  if (!r) {
    r = malloc(sizeof *r);
    if (!r) abort();
    *r = wanted;
    r->next = w->rounds;
    w->rounds = r;
  }
  e->round = r;
  fake_nccl_unlock();
  if (!is_equal) fake_violate(fake_cuda(), "ranks make different calls");
  return !is_equal;
}

int fake_nccl_prepare(fake_exchange *e) {
  const int reduces = e->kind <= FAKE_REDUCE_SCATTER;
  const int size = e->comm->world->size;
  const char *wrong = NULL;
  if (e->type < 0 || e->type >= N_TYPES) wrong = "an unknown type";
  if (reduces && (e->op < 0 || e->op >= N_OPS)) wrong = "an unknown function";
  if (e->peer >= size) wrong = "a rank that does not exist";
  if (e->n == 0) wrong = "no elements";
  if (!e->stream || e->stream->device != e->comm->device)
    wrong = "a stream of another device";
  if (!wrong && e->stream->recording) wrong = "a stream that records";
  if (!wrong) return find_round(e);
  char text[80] = "passes to NCCL ";
  fake_violate(fake_cuda(), strcat(text, wrong));
  return 1;
}

/* Frees the round after all of its ranks. The lock is held. */
static void leave_round(fake_exchange *e) {
  fake_world *w = e->comm->world;
  fake_round *r = e->round, **at = &w->rounds;
  if (++r->n_left < (is_message(e) ? 2 : w->size)) return;
  while (*at != r) at = &(*at)->next;
  *at = r->next;
  for (int k = 0; k < MOST_RANKS; ++k) free(r->inputs[k]);
  free(r);
}

/* ----------------------------------------------------------------- commands */

static size_t get_input_bytes(const fake_exchange *e) {
  const size_t bytes = e->n * (size_t)widths[e->type];
  return e->kind == FAKE_REDUCE_SCATTER ? bytes * (size_t)e->comm->world->size
                                        : bytes;
}

static size_t get_output_bytes(const fake_exchange *e) {
  const size_t bytes = e->n * (size_t)widths[e->type];
  if (e->kind == FAKE_REDUCE && e->peer != e->comm->rank) return 0;
  if (e->kind == FAKE_SEND) return 0;
  return e->kind == FAKE_ALL_GATHER ? bytes * (size_t)e->comm->world->size
                                    : bytes;
}

static void bring_input(fake *f, const void *arg) {
  const fake_exchange *e = *(fake_exchange *const *)arg;
  const size_t bytes = get_input_bytes(e);
  char *copy = malloc(bytes);
  if (!copy) abort();
  memcpy(copy, fake_reach(f, e->from), bytes);
  fake_nccl_lock();
  e->round->inputs[e->comm->rank] = copy;
  ++e->round->n_arrived;
  fake_nccl_unlock();
  fake_nudge(f);
}

/* A message has one input, and its sender waits until it was received. */
static bool has_inputs(const void *arg) {
  const fake_exchange *e = *(fake_exchange *const *)arg;
  fake_nccl_lock();
  const int n = is_message(e) ? 1 : e->comm->world->size;
  const bool is_ready =
      e->comm->is_aborted || (e->round->n_arrived >= n &&
                              (e->kind != FAKE_SEND || e->round->n_left > 0));
  fake_nccl_unlock();
  return is_ready;
}

static void write_output(fake *f, const void *arg) {
  fake_exchange *e = *(fake_exchange *const *)arg;
  char *to = get_output_bytes(e) ? fake_reach(f, e->to) : NULL;
  fake_nccl_lock();
  if (to && !e->comm->is_aborted) compute(e, to);
  leave_round(e);
  fake_nccl_unlock();
  free(e);
  fake_nudge(f);
}

void fake_nccl_submit_input(fake_exchange *e) {
  const fake_uses none = {.n = 0};
  fake_uses reads = {.n = 0};
  const fake_work work = {
      .run = bring_input, .arg = &e, .arg_bytes = sizeof(void *)};
  if (e->kind == FAKE_RECV) return;
  add_use(&reads, e->from, (int64_t)get_input_bytes(e));
  (void)submit_uses(e->stream, work, &reads, &none);
}

void fake_nccl_submit_output(fake_exchange *e) {
  const fake_uses none = {.n = 0};
  fake_uses writes = {.n = 0};
  const fake_work work = {.run = write_output,
                          .is_ready = has_inputs,
                          .arg = &e,
                          .arg_bytes = sizeof(void *)};
  if (get_output_bytes(e) > 0)
    add_use(&writes, e->to, (int64_t)get_output_bytes(e));
  (void)submit_uses(e->stream, work, &none, &writes);
}
