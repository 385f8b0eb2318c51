/* SPDX-License-Identifier: Apache-2.0
 * fused_registers.c: the register run of a fused step: one array of register
 * kernels (tenon/draft/registers.h), if all its kernels offer them. Results go
 * from call to call in registers. A result that is needed again is saved in a
 * block of the scratch. The run uses no buffers of fused_tiles.c. A worker
 * computes a part of a line at once: its tiles are parts of one line.
 *
 * The end of a line that is shorter than a block is computed on copies.
 */
#include <string.h>

#include "floating.h"
#include "fused.h"

enum {
  LEAST_PIECE = 8192, /* least number of elements of a line that are computed at
                         once */
  MOST_PIECE = 65536, /* largest number of these elements */
  PIECES = 64,        /* number of parts into which a loop is divided, so that
                         threads end at about the same time */
  LEAST_LINE =
      512, /* least length of a line; shorter lines would be mostly copies */
  PER_MAKE = 3 /* maximal number of register kernels per result: the kernel
                  itself, an optional load before it and an optional save
                  after it */
};

/* One output of one part, and its register kernels. */
typedef struct make {
  const tn_register_output *made;
  const tn__step *step;
  const void *params;
  uint32_t part;
} make;

/* The state of making a register run. */
typedef struct maker {
  const tn__fused *f;
  tn__register_run *run;
  const make *makes;
  uint32_t n_makes;
} maker;

/* ------------------------------------------------------------------ offers */

/* Returns the number of a part's operand. A register run has no operand outside
 * of its parts. */
static uint32_t find_operand(const tn__fused *f, uint32_t part,
                             uint32_t position) {
  for (uint32_t i = 0; i < f->n_operands; ++i)
    if (f->operands[i].part == part && f->operands[i].position == position)
      return i;
  return TN_NONE;
}

/* Tests whether the lines of every operand are long, and are dense or one
 * repeated element. */
static bool has_fitting_lines(const tn__fused *f) {
  const uint32_t last = f->ndim - 1;
  if (f->n_reductions > 0 || f->shape[last] < LEAST_LINE) return false;
  for (uint32_t i = 0; i < f->n_operands; ++i) {
    const tn__tile_operand *o = &f->operands[i];
    if (o->buffer != TN_NONE) continue;
    if (o->strides[last] != 1 && (o->is_output || o->strides[last] != 0))
      return false;
  }
  return true;
}

/* Whether all outputs in memory are written and not added to. */
static bool has_only_writes(const tn__step *step) {
  for (uint32_t i = 0; i < step->n_out; ++i)
    if (step->program->values[step->out[i]].request == TN_REQ_ADD) return false;
  return true;
}

/* Tests whether the register kernels of an offer fit those of the first offer,
 * and name only operands that the part has. */
static bool is_compatible_offer(const tn__fused *f,
                                const tn_register_offer *first,
                                const tn_register_offer *offer, uint32_t part,
                                uint32_t n_in) {
  const uint32_t element = first->outputs[0].element;
  if (offer->interface->vectors != first->interface->vectors ||
      offer->interface->bytes != first->interface->bytes)
    return false;
  for (uint32_t m = 0; m < offer->n_outputs; ++m) {
    const tn_register_output *made = &offer->outputs[m];
    const uint32_t out = find_operand(f, part, n_in + made->out);
    if (out == TN_NONE || f->operands[out].element != element) return false;
    for (uint32_t i = 0; i < made->n_in; ++i) {
      const uint32_t k = find_operand(f, part, made->in[i]);
      if (k == TN_NONE || f->operands[k].element != element) return false;
    }
    if (made->element != element) return false;
  }
  return true;
}

/* Requests the register kernels that every part's kernel offers. *n_makes is 0
 * if one part offers none. */
static tn_code request_offers(const tn__step *step, tn_register_offer *offers,
                              make *makes, uint32_t *n_makes) {
  const tn__fused *f = step->fused;
  uint32_t n = 0;
  *n_makes = 0;
  for (uint32_t k = 0; k < step->n_parts; ++k) {
    tn__tile *tile = f->scratch[0].tiles[k];
    const tn__step *part = step->parts[k];
    if (!(part->info.kernel->desc->flags & TN_KERNEL_REGISTERS)) return TN_OK;
    TN__TRY(tn__tile_get_offer(tile, &offers[k]));
    if (!offers[k].interface || !is_compatible_offer(f, &offers[0], &offers[k],
                                                     k, part->info.frame->n_in))
      return TN_OK;
    for (uint32_t m = 0; m < offers[k].n_outputs; ++m)
      makes[n++] =
          (make){&offers[k].outputs[m], part, tn__tile_params(tile), k};
  }
  *n_makes = n;
  return TN_OK;
}

/* --------------------------------------------------------- register kernels */

static uint32_t get_input_entry(const maker *m, const make *at,
                                uint32_t input) {
  const uint32_t k = find_operand(m->f, at->part, at->made->in[input]);
  return m->f->operands[k].entry;
}

/* Number of times that the results [begin, end) read an entry. */
static uint32_t count_reads(const maker *m, uint32_t entry, uint32_t begin,
                            uint32_t end) {
  uint32_t n = 0;
  for (uint32_t k = begin; k < end; ++k)
    for (uint32_t i = 0; i < m->makes[k].made->n_in; ++i)
      n += get_input_entry(m, &m->makes[k], i) == entry;
  return n;
}

static tn_register_step *add_step(maker *m, tn_register_kernel *go,
                                  const void *params) {
  tn_register_step *step = &m->run->steps[m->run->n_steps++];
  step->go = go;
  step->params = params;
  return step;
}

/* Sets memory number `k` of the last register kernel to an operand. */
static void set_memory(maker *m, uint32_t k, uint32_t operand) {
  uint32_t first = 0;
  while (m->f->operands[first].entry != m->f->operands[operand].entry) ++first;
  m->run->uses[m->run->n_uses++] =
      (tn__register_use){m->run->n_steps - 1, k, operand, first};
}

/* Returns the number of the input that the next register kernel reads from
 * registers: the input that is in registers already, or one that an added load
 * brings into registers. */
static uint32_t load_into_registers(maker *m, const make *at, uint32_t held) {
  for (uint32_t i = 0; i < at->made->n_in; ++i)
    if (get_input_entry(m, at, i) == held) return i;
  (void)add_step(m, m->run->interface->load, NULL);
  set_memory(m, 0, find_operand(m->f, at->part, at->made->in[0]));
  return 0;
}

/* Adds a register kernel that saves a result, if a later reader does not find
 * the result in registers. */
static void add_save(maker *m, uint32_t k, uint32_t operand) {
  const tn__tile_operand *out = &m->f->operands[operand];
  const uint32_t reads = count_reads(m, out->entry, k + 1, m->n_makes);
  const bool held =
      k + 1 < m->n_makes && count_reads(m, out->entry, k + 1, k + 2) > 0;
  if (out->buffer != TN_NONE && reads == (held ? 1 : 0)) return;
  (void)add_step(m, m->run->interface->save, NULL);
  set_memory(m, 0, operand);
}

static void add_steps(maker *m) {
  uint32_t held = TN_NONE;
  for (uint32_t k = 0; k < m->n_makes; ++k) {
    const make *at = &m->makes[k];
    const uint32_t in = load_into_registers(m, at, held);
    const uint32_t out = find_operand(
        m->f, at->part, at->step->info.frame->n_in + at->made->out);
    (void)add_step(m, at->made->kernels[in], at->params);
    for (uint32_t i = 0, other = 0; i < at->made->n_in; ++i)
      if (i != in)
        set_memory(m, other++, find_operand(m->f, at->part, at->made->in[i]));
    add_save(m, k, out);
    held = m->f->operands[out].entry;
  }
  (void)add_step(m, m->run->interface->end, NULL);
}

/* ------------------------------------------------------------------ making */

static tn__register_run *alloc_register_run(tn__arena *arena,
                                            uint32_t n_makes) {
  tn__register_run *run = tn__arena_alloc(arena, sizeof *run);
  const size_t steps = n_makes * PER_MAKE + 1;
  if (!run) return NULL;
  run->steps = tn__arena_alloc(arena, steps * sizeof *run->steps);
  run->uses = tn__arena_alloc(
      arena, n_makes * (TN_REGISTER_INPUTS + 1) * sizeof *run->uses);
  return arena->failed ? NULL : run;
}

/* Sets the memory of the register kernels in a scratch: a buffer stays where it
 * is, and each operand in memory gets a block. */
static void place_registers(const tn__fused *f, const tn__register_run *run,
                            tn__scratch *scratch) {
  memcpy(scratch->steps, run->steps, run->n_steps * sizeof *run->steps);
  scratch->blocks = scratch->buffers + f->n_buffers * f->buffer_bytes;
  for (uint32_t i = 0; i < run->n_uses; ++i) {
    const tn__register_use *use = &run->uses[i];
    const tn__tile_operand *o = &f->operands[use->operand];
    if (o->buffer != TN_NONE)
      scratch->steps[use->step].memory[use->memory] = (tn_register_memory){
          scratch->buffers + o->buffer * f->buffer_bytes, 0};
  }
}

static int64_t get_piece_length(const tn__fused *f) {
  int64_t n = 1;
  for (uint32_t i = 0; i < f->ndim; ++i) n *= f->shape[i];
  n /= PIECES;
  if (n < LEAST_PIECE) return LEAST_PIECE;
  return n < MOST_PIECE ? n : MOST_PIECE;
}

static tn_code finish_run(tn__step *step, maker *m) {
  tn__fused *f = step->fused;
  tn__arena *arena = &step->program->arena;
  add_steps(m);
  for (uint32_t i = 0; i < f->n_scratch; ++i) {
    const size_t bytes = m->run->n_steps * sizeof(tn_register_step);
    f->scratch[i].steps = tn__arena_alloc(arena, bytes);
    if (!f->scratch[i].steps) return tn__fail_memory(bytes, "a register run");
    place_registers(f, m->run, &f->scratch[i]);
  }
  tn__fused_make_lines(f, get_piece_length(f));
  f->registers = m->run;
  step->program->stats.n_in_registers += step->n_parts;
  return TN_OK;
}

tn_code tn__register_run_make(tn__step *step) {
  const tn_program *p = step->program;
  tn__fused *f = step->fused;
  if (!has_fitting_lines(f) || !has_only_writes(step)) return TN_OK;
  const size_t bytes = step->n_parts * (sizeof(tn_register_offer) +
                                        TN_REGISTER_OUTPUTS * sizeof(make));
  tn_register_offer *offers = tn__zalloc(p->env, bytes);
  if (!offers) return tn__fail_memory(bytes, "a register run");
  make *makes = (make *)(void *)(offers + step->n_parts);
  maker m = {.f = f, .makes = makes};
  tn_code rc = request_offers(step, offers, makes, &m.n_makes);
  if (rc == TN_OK && m.n_makes > 0) {
    m.run = alloc_register_run(&step->program->arena, m.n_makes);
    if (m.run) {
      m.run->interface = offers[0].interface;
      m.run->element = offers[0].outputs[0].element;
      rc = finish_run(step, &m);
    } else {
      rc = tn__fail_memory(sizeof *m.run, "a register run");
    }
  }
  tn__free(p->env, offers);
  return rc;
}

/* ------------------------------------------------------------------ running */

/* Returns the block of an operand, which contains one repeated element, or the
 * elements at the end of a line. */
static char *get_block(const tn__register_run *run, const tn__scratch *scratch,
                       const tn__register_use *use) {
  return scratch->blocks + use->block * (size_t)run->interface->bytes;
}

static tn_register_memory *get_memory(const tn__scratch *scratch,
                                      const tn__register_use *use) {
  return &scratch->steps[use->step].memory[use->memory];
}

static void repeat_element(char *block, const char *element, size_t bytes,
                           size_t all) {
  for (size_t i = 0; i < all; i += bytes) memcpy(block + i, element, bytes);
}

/* Moves the operands in memory to the line that begins at `at`. */
static void set_line(const tn__fused *f, tn__scratch *scratch,
                     const int64_t *at) {
  const tn__register_run *run = f->registers;
  for (uint32_t i = 0; i < run->n_uses; ++i) {
    const tn__register_use *use = &run->uses[i];
    const tn__tile_operand *o = &f->operands[use->operand];
    if (o->buffer != TN_NONE) continue;
    char *data = tn__operand_address(f, o, at),
         *block = get_block(run, scratch, use);
    const bool is_line = o->strides[f->ndim - 1] != 0;
    if (!is_line)
      repeat_element(block, data, run->element, run->interface->bytes);
    *get_memory(scratch, use) =
        (tn_register_memory){is_line ? data : block, is_line ? -1 : 0};
  }
}

static void run_registers(const tn__register_run *run, tn__scratch *scratch,
                          int64_t bytes) {
  const tn__floating floating = tn__floating_get();
  run->interface->run(scratch->steps, 0, bytes);
  tn__floating_keep(&floating);
}

/* Computes the rest of a line after `whole` bytes, in a block for each operand.
 */
static void run_rest(const tn__fused *f, tn__scratch *scratch, size_t whole,
                     size_t bytes) {
  const tn__register_run *run = f->registers;
  for (uint32_t i = 0; i < run->n_uses; ++i) {
    const tn__register_use *use = &run->uses[i];
    tn_register_memory *memory = get_memory(scratch, use);
    char *block = get_block(run, scratch, use);
    if (memory->moves == 0) continue;
    if (!f->operands[use->operand].is_output)
      memcpy(block, memory->at + whole, bytes);
    memory->at = block;
  }
  run_registers(run, scratch, run->interface->bytes);
}

static void store_rest(const tn__fused *f, tn__scratch *scratch,
                       const int64_t *at, size_t whole, size_t bytes) {
  const tn__register_run *run = f->registers;
  for (uint32_t i = 0; i < run->n_uses; ++i) {
    const tn__register_use *use = &run->uses[i];
    const tn__tile_operand *o = &f->operands[use->operand];
    if (o->buffer == TN_NONE && o->is_output)
      memcpy(tn__operand_address(f, o, at) + whole,
             get_block(run, scratch, use), bytes);
  }
}

void tn__register_run_tile(const tn__fused *f, tn__scratch *scratch,
                           int64_t index) {
  const tn__register_run *run = f->registers;
  int64_t at[TN__LOOP_NDIM], shape[TN__LOOP_NDIM];
  tn__tile_extent(f, index, at, shape);
  set_line(f, scratch, at);
  const size_t bytes = (size_t)shape[f->ndim - 1] * run->element;
  const size_t whole = bytes / run->interface->bytes * run->interface->bytes;
  run_registers(run, scratch, (int64_t)whole);
  if (whole == bytes) return;
  run_rest(f, scratch, whole, bytes - whole);
  store_rest(f, scratch, at, whole, bytes - whole);
}
