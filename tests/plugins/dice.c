/* SPDX-License-Identifier: Apache-2.0
 * dice.c: see dice.h.
 */
#include "dice.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct taken {
  struct taken *behind;
  max_align_t memory[];
} taken;

static struct {
  uint64_t seed;
  uint64_t state;
  int step;
  size_t used; /* of the story */
  char story[1 << 15];
  taken *taken;
} dice;

/* splitmix64, which takes any seed. */
uint32_t dice_below(uint32_t n) {
  uint64_t z = dice.state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (uint32_t)((z ^ z >> 31) >> 32) % n;
}

bool dice_once_in(uint32_t n) {
  return dice_below(n) == 0;
}

double dice_value(void) {
  return ((double)dice_below(17) - 8) / 4;
}

void *dice_take(size_t bytes) {
  taken *t = calloc(1, sizeof *t + bytes);
  if (!t) dice_fail("no memory");
  t->behind = dice.taken;
  dice.taken = t;
  return t->memory;
}

static void give_back(void) {
  while (dice.taken) {
    taken *t = dice.taken;
    dice.taken = t->behind;
    free(t);
  }
}

/* ------------------------------------------------------------------ trials */

bool dice_are_usual(void) {
  return getenv("SEED") == NULL;
}

void dice_trials(uint64_t n, void (*trial)(void)) {
  const char *given = getenv("SEED");
  char *end = NULL;
  uint64_t first = 1, last = n;
  if (given) {
    first = last = strtoull(given, &end, 10);
    if (*end == '-') last = strtoull(end + 1, NULL, 10);
  }
  for (uint64_t seed = first; seed <= last; ++seed) {
    dice.seed = dice.state = seed;
    dice.step = 0;
    dice.used = 0;
    dice.story[0] = 0;
    trial();
    give_back();
  }
}

void dice_step(void) {
  ++dice.step;
}

static void add_text(const char *format, va_list args) {
  const size_t room = sizeof dice.story - dice.used;
  const int n = vsnprintf(dice.story + dice.used, room, format, args);
  if (n > 0) dice.used += (size_t)n < room ? (size_t)n : room - 1;
}

static void add(const char *format, ...) {
  va_list args;
  va_start(args, format);
  add_text(format, args);
  va_end(args);
}

void dice_tell(const char *format, ...) {
  va_list args;
  add("\nstep %d: ", dice.step);
  va_start(args, format);
  add_text(format, args);
  va_end(args);
}

void dice_fail(const char *format, ...) {
  char text[1000];
  va_list args;
  va_start(args, format);
  (void)vsnprintf(text, sizeof text, format, args);
  va_end(args);
  cr_assert_fail("SEED=%llu, step %d: %s%s", (unsigned long long)dice.seed,
                 dice.step, text, dice.story);
  abort();
}
