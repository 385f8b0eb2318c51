/* SPDX-License-Identifier: Apache-2.0
 * image_folder.c: a network of convolutions learns the classes of images. Files
 * of records contain the images as JPEGs, as `tenon data pack` makes them.
 *
 *   image_folder TRAIN.rec TEST.rec [--save STEP FILE | --resume FILE]
 *                [PLUGIN.so ...]
 *
 * Each image is decoded, cut at random, mirrored with probability 1/2 and
 * resized by the engine while the network learns from the batch before; then
 * its colours are changed. After so many steps --save writes everything that
 * the rest of the training depends on to FILE. --resume continues there, in the
 * middle of an epoch, with the same numbers.
 *
 * Without plugins it loads the installed ones. It prints a line per epoch, and
 * succeeds if at least 95 % of the images of TEST.rec come out right.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/data.h>
#include <tenon/exchange.h>

#include "image_net.h"

enum { BATCH = 40, EPOCHS = 16, PERCENT = 95, MOST_NOTES = 8 };

/* An operator with its parameters. */
typedef struct operation {
  tn_operator *op;
  tn_params *params;
} operation;

/* Results for some images. */
typedef struct score {
  uint64_t n, n_right;
  double loss; /* sum of -log(probability of the label) */
} score;

typedef struct trainer {
  tn_runtime *rt;
  image_net net;
  tn_data *train, *test;
  operation jitter, to_chw, normalize;
  uint64_t epoch; /* whose rate is set; EPOCHS: none */
  uint64_t n_steps;
  score learned;    /* of the epoch so far */
  score tested;     /* after the last epoch */
  uint64_t save_at; /* a number of steps; 0: none */
  const char *save_file, *resume_file;
} trainer;

/* --------------------------------------------------------------------- data */

static const char random_parts[] =
    "decode=\"height=32 width=32 mode=random area=[0.6,1] mirror=0.5\"";
static const char whole_images[] = "decode=\"height=32 width=32\"";

static tn_code open_images(const trainer *t, const char *path, int is_training,
                           tn_data **out) {
  const tn_data_file file = {path, "images",
                             is_training ? random_parts : whole_images};
  const tn_data_options options = {
      .struct_size = sizeof options,
      .batch = BATCH,
      .last = is_training ? TN_LAST_DISCARD : TN_LAST_PAD,
      .shuffle = (uint32_t)is_training,
      .seed = 7};
  return tn_data_open(t->rt, &file, &options, out);
}

static tn_code find_operation(tn_runtime *rt, const char *name,
                              const char *params, operation *out) {
  const tn_code rc = tn_operator_get(rt, name, &out->op);
  return rc ? rc : tn_params_parse(out->op, params, &out->params);
}

static tn_code find_operations(trainer *t) {
  tn_code rc = find_operation(t->rt, "image.color_jitter",
                              "brightness=[0.8,1.2] contrast=[0.8,1.2] "
                              "saturation=[0.5,1.5] hue=[-0.1,0.1]",
                              &t->jitter);
  if (!rc) rc = find_operation(t->rt, "image.to_chw", "", &t->to_chw);
  if (!rc)
    rc = find_operation(t->rt, "image.normalize", "mean=[0.5] std=[0.25]",
                        &t->normalize);
  return rc;
}

/* Replaces *array by the result of a call on it. */
static tn_code apply(const trainer *t, const operation *o, tn_array **array) {
  tn_array *out = NULL;
  const tn_code rc =
      tn_call(t->rt, o->op, TN_IN(*array), o->params, TN_OUT(&out));
  tn_array_release(*array);
  *array = out;
  return rc;
}

/* Planes of floats, which the caller releases. */
static tn_code prepare_images(const trainer *t, tn_array *pixels,
                              int is_training, tn_array **out) {
  tn_code rc = TN_OK;
  *out = tn_array_retain(pixels);
  if (is_training) rc = apply(t, &t->jitter, out);
  if (!rc) rc = apply(t, &t->to_chw, out);
  if (!rc) rc = apply(t, &t->normalize, out);
  return rc;
}

/* -------------------------------------------------------------------- score */

/* Adds a batch, without the examples that only fill it. */
static tn_code count_batch(const tn_batch *batch, tn_array *probabilities,
                           score *s) {
  float p[BATCH * IMAGE_CLASSES], labels[BATCH];
  tn_code rc = tn_array_get(probabilities, p, sizeof p);
  if (!rc) rc = tn_array_get(batch->arrays[1], labels, sizeof labels);
  if (rc) return rc;
  const uint64_t n = batch->n_examples - batch->pad;
  for (uint64_t i = 0; i < n; ++i) {
    const float *each = p + i * IMAGE_CLASSES;
    const size_t label = (size_t)labels[i];
    size_t best = 0;
    for (size_t k = 1; k < IMAGE_CLASSES; ++k)
      if (each[k] > each[best]) best = k;
    s->n_right += best == label;
    s->loss -= log(fmax((double)each[label], 1e-30));
  }
  s->n += n;
  return TN_OK;
}

static double percent_of(const score *s) {
  return s->n > 0 ? 100 * (double)s->n_right / (double)s->n : 0;
}

/* Computes the images that are not used for training. */
static tn_code test_images(trainer *t) {
  tn_batch batch;
  tn_tape *tape = NULL; /* watches nothing */
  t->tested = (score){0};
  tn_code rc = tn_tape_create(t->rt, &tape);
  while (!rc && !(rc = tn_data_next(t->test, &batch)) && batch.n_arrays) {
    tn_array *images = NULL, *out = NULL;
    rc = prepare_images(t, batch.arrays[0], 0, &images);
    if (!rc)
      rc = image_net_forward(&t->net, tape, images, batch.arrays[1], &out);
    if (!rc) rc = count_batch(&batch, out, &t->tested);
    tn_array_release(images), tn_array_release(out);
  }
  if (!rc) rc = tn_data_rewind(t->test);
  tn_tape_release(tape);
  return rc;
}

/* --------------------------------------------------------------- checkpoint */

/* A checkpoint is a .safetensors of the weights and their last steps. Its
 * metadata has the position in the data, that of the random stream, and the
 * score of the epoch so far. */
static tn_code save_arrays(const trainer *t, const tn_bundle_pair *notes,
                           size_t n_notes) {
  char names[2 * IMAGE_WEIGHTS][16];
  tn_bundle_item items[2 * IMAGE_WEIGHTS];
  for (int i = 0; i < IMAGE_WEIGHTS; ++i) {
    (void)snprintf(names[2 * i], sizeof *names, "weight%d", i);
    (void)snprintf(names[2 * i + 1], sizeof *names, "step%d", i);
    items[2 * i] = (tn_bundle_item){names[2 * i], t->net.weight[i]};
    items[2 * i + 1] = (tn_bundle_item){names[2 * i + 1], t->net.step[i]};
  }
  const tn_bundle_content content = {.struct_size = sizeof content,
                                     .items = items,
                                     .n_items = sizeof items / sizeof *items,
                                     .metadata = notes,
                                     .n_metadata = n_notes};
  return tn_bundle_save(t->rt, t->save_file, &content);
}

static tn_code save_checkpoint(const trainer *t) {
  char random[64], learned[96];
  tn_random_state state;
  tn_text *position = NULL;
  tn_code rc = tn_data_save(t->train, &position);
  if (!rc) rc = tn_random_get(t->rt, &state);
  if (!rc) {
    (void)snprintf(random, sizeof random, "%" PRIu64 " %" PRIu64, state.seed,
                   state.drawn);
    (void)snprintf(learned, sizeof learned,
                   "%" PRIu64 " %" PRIu64 " %" PRIu64 " %a", t->n_steps,
                   t->learned.n, t->learned.n_right, t->learned.loss);
    const tn_bundle_pair notes[] = {{"data", tn_text_get(position)},
                                    {"learned", learned},
                                    {"random", random}};
    rc = save_arrays(t, notes, sizeof notes / sizeof *notes);
  }
  if (!rc)
    printf("saved after step %" PRIu64 ": %s\n", t->n_steps,
           tn_text_get(position));
  tn_text_release(position);
  return rc;
}

/* The value of a key of the metadata, or "". */
static const char *find_note(const tn_bundle *file, const char *key) {
  tn_bundle_pair pair;
  for (size_t i = 0; !tn_bundle_pair_at(file, i, &pair); ++i)
    if (strcmp(pair.key, key) == 0) return pair.value;
  return "";
}

static tn_code load_array(tn_bundle *file, const char *kind, int i,
                          tn_array **array) {
  char name[16];
  (void)snprintf(name, sizeof name, "%s%d", kind, i);
  tn_array_release(*array), *array = NULL;
  return tn_bundle_get(file, name, 0, array);
}

static tn_code load_checkpoint(trainer *t) {
  tn_random_state state = {0};
  tn_bundle *file = NULL;
  tn_code rc = tn_bundle_open(t->rt, t->resume_file, &file);
  for (int i = 0; i < IMAGE_WEIGHTS && !rc; ++i) {
    rc = load_array(file, "weight", i, &t->net.weight[i]);
    if (!rc) rc = load_array(file, "step", i, &t->net.step[i]);
  }
  if (!rc) {
    const char *data = find_note(file, "data");
    (void)sscanf(find_note(file, "random"), "%" SCNu64 " %" SCNu64, &state.seed,
                 &state.drawn);
    (void)sscanf(find_note(file, "learned"),
                 "%" SCNu64 " %" SCNu64 " %" SCNu64 " %la", &t->n_steps,
                 &t->learned.n, &t->learned.n_right, &t->learned.loss);
    rc = tn_data_restore(t->train, data);
    if (!rc) rc = tn_random_set(t->rt, &state);
    if (!rc) printf("resumed after step %" PRIu64 ": %s\n", t->n_steps, data);
  }
  tn_bundle_close(file);
  return rc;
}

/* -------------------------------------------------------------------- train */

/* From 0.04 down to nothing, slowly at both ends. */
static double find_rate(uint64_t epoch) {
  return 0.02 * (1 + cos(3.14159265358979 * (double)epoch / EPOCHS));
}

static tn_code learn_batch(trainer *t, const tn_batch *batch) {
  tn_array *images = NULL, *out = NULL;
  tn_code rc = TN_OK;
  if (batch->epoch != t->epoch) {
    t->epoch = batch->epoch;
    rc = image_net_set_rate(&t->net, find_rate(t->epoch));
  }
  if (!rc) rc = prepare_images(t, batch->arrays[0], 1, &images);
  if (!rc) rc = image_net_learn(&t->net, images, batch->arrays[1], &out);
  if (!rc) rc = count_batch(batch, out, &t->learned);
  tn_array_release(images), tn_array_release(out);
  ++t->n_steps;
  return rc;
}

static tn_code end_epoch(trainer *t) {
  const tn_code rc = test_images(t);
  if (rc) return rc;
  printf("epoch %2" PRIu64 "  loss %.4f  learned %5.1f %%  tested %5.1f %%\n",
         t->epoch + 1, t->learned.loss / (double)t->learned.n,
         percent_of(&t->learned), percent_of(&t->tested));
  (void)fflush(stdout);
  t->learned = (score){0};
  return tn_data_rewind(t->train);
}

static tn_code run_steps(trainer *t) {
  tn_batch batch;
  tn_code rc = TN_OK;
  while (!rc && !(rc = tn_data_next(t->train, &batch))) {
    if (batch.n_arrays == 0) {
      rc = end_epoch(t);
      if (t->epoch + 1 == EPOCHS) break;
    } else {
      rc = learn_batch(t, &batch);
      if (!rc && t->n_steps == t->save_at) rc = save_checkpoint(t);
    }
  }
  return rc;
}

static void release_trainer(trainer *t) {
  tn_data_release(t->train), tn_data_release(t->test);
  tn_params_release(t->jitter.params), tn_params_release(t->to_chw.params);
  tn_params_release(t->normalize.params);
  image_net_deinit(&t->net);
}

static tn_code run_trainer(trainer *t, char **paths) {
  tn_code rc = find_operations(t);
  if (!rc) rc = image_net_init(&t->net, t->rt);
  if (!rc) rc = open_images(t, paths[0], 1, &t->train);
  if (!rc) rc = open_images(t, paths[1], 0, &t->test);
  if (!rc && t->resume_file) rc = load_checkpoint(t);
  if (!rc) rc = run_steps(t);
  release_trainer(t);
  return rc;
}

/* Returns the number of the first argument that is a plugin; 0: a mistake. */
static int parse_arguments(int argc, char **argv, trainer *t) {
  if (argc < 3) return 0;
  if (argc > 3 && strcmp(argv[3], "--save") == 0) {
    if (argc < 6) return 0;
    t->save_at = strtoull(argv[4], NULL, 10);
    t->save_file = argv[5];
    return 6;
  }
  if (argc > 3 && strcmp(argv[3], "--resume") == 0) {
    if (argc < 5) return 0;
    t->resume_file = argv[4];
    return 5;
  }
  return 3;
}

int main(int argc, char **argv) {
  trainer t = {.epoch = EPOCHS};
  const int first = parse_arguments(argc, argv, &t);
  if (first == 0) {
    fprintf(stderr,
            "usage: image_folder TRAIN.rec TEST.rec [--save STEP FILE | "
            "--resume FILE] [PLUGIN.so ...]\n");
    return 2;
  }
  tn_code rc = tn_runtime_create(NULL, &t.rt);
  if (!rc && first == argc) rc = tn_plugins_load_standard(t.rt);
  for (int i = first; i < argc && !rc; ++i) rc = tn_plugin_load(t.rt, argv[i]);
  if (!rc) rc = run_trainer(&t, argv + 1);
  if (rc) fprintf(stderr, "%s\n", tn_error_text());
  tn_runtime_release(t.rt);
  return rc || percent_of(&t.tested) < PERCENT;
}
