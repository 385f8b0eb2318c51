/* SPDX-License-Identifier: Apache-2.0
 * image.c: init of the plugin, which opens libjpeg-turbo and libpng. Without
 * both it withdraws the decoders; without one of them, files of that format are
 * errors. The file also has the scratch memory of image.h.
 */
#include "image.h"

#include <stdlib.h>

#include "codec.h"
#include "plugin.gen.h"

/* A scratch with larger rooms gives them back. */
enum { MOST_KEPT = 32 << 20 };

void *image_reserve(image_room *room, int64_t count, int64_t size) {
  if (count < 0 || size < 0 || (size > 0 && count > INT64_MAX / 2 / size))
    return NULL;
  const size_t bytes = (size_t)(count * size);
  if (room->at && bytes <= room->bytes) return room->at;
  free(room->at);
  room->bytes = bytes + bytes / 4 + 64;
  room->at = malloc(room->bytes);
  if (!room->at) room->bytes = 0;
  return room->at;
}

static void empty_room(image_room *room) {
  free(room->at);
  *room = (image_room){NULL, 0};
}

static void trim_rooms(image_scratch *scratch, size_t most) {
  image_room *const rooms[] = {&scratch->pixels,  &scratch->middle,
                               &scratch->sums,    &scratch->taps[0],
                               &scratch->taps[1], &scratch->result};
  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; ++i)
    if (rooms[i]->bytes > most) empty_room(rooms[i]);
}

image_scratch *image_borrow_scratch(image_instance *self) {
  (void)pthread_mutex_lock(&self->lock);
  image_scratch *scratch = self->free;
  if (scratch) self->free = scratch->next;
  (void)pthread_mutex_unlock(&self->lock);
  return scratch ? scratch : calloc(1, sizeof *scratch);
}

void image_return_scratch(image_instance *self, image_scratch *scratch) {
  trim_rooms(scratch, MOST_KEPT);
  (void)pthread_mutex_lock(&self->lock);
  scratch->next = self->free;
  self->free = scratch;
  (void)pthread_mutex_unlock(&self->lock);
}

static int32_t withdraw_decoders(const image_instance *self,
                                 tn_registrar *registrar) {
  static const char *const kernels[] = {"image.decode.cpu",
                                        "image.decode_batch.cpu"};
  int32_t code = TN_OK;
  if (self->jpeg || self->png) return TN_OK;
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels && code == TN_OK; ++i)
    code = registrar->withdraw(registrar, kernels[i], self->no_jpeg);
  return code;
}

int32_t image_init(const tn_host *host, tn_registrar *registrar,
                   void **instance) {
  image_instance *self = calloc(1, sizeof *self);
  if (!self) return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory");
  if (pthread_mutex_init(&self->lock, NULL) != 0) {
    free(self);
    return registrar->fail(registrar, TN_OUT_OF_MEMORY, "no memory for a lock");
  }
  self->jpeg = image_open_jpeg(self->no_jpeg);
  self->png = image_open_png(self->no_png);
  if (!self->jpeg)
    host->log(host, TN_LOG_INFO, "JPEG files cannot be decoded: %s",
              self->no_jpeg);
  if (!self->png)
    host->log(host, TN_LOG_INFO, "PNG files cannot be decoded: %s",
              self->no_png);
  const int32_t code = withdraw_decoders(self, registrar);
  if (code == TN_OK)
    *instance = self;
  else
    image_fini(self);
  return code;
}

void image_fini(void *instance) {
  image_instance *self = instance;
  while (self->free) {
    image_scratch *scratch = self->free;
    self->free = scratch->next;
    image_destroy_jpeg(scratch->jpeg);
    image_destroy_png(scratch->png);
    trim_rooms(scratch, 0);
    free(scratch);
  }
  image_close_jpeg(self->jpeg);
  image_close_png(self->png);
  (void)pthread_mutex_destroy(&self->lock);
  free(self);
}
