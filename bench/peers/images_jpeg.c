/* SPDX-License-Identifier: Apache-2.0
 * Images per second by libjpeg-turbo alone, and the files for all programs:
 *
 *   images_jpeg write FOLDER HEIGHT WIDTH N    N files, about like photographs
 *   images_jpeg read FOLDER                    prints `decode`
 *
 * It keeps one decoder and one buffer, and reads 16 rows at a time.
 */
#include <dirent.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h> /* before jpeglib.h */
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "../measure.h"

enum { MOST = 64 /* files */, QUALITY = 90, ROWS = 16 };

#define SECONDS 0.5

/* ------------------------------------------------------------------- write */

/* Waves of several lengths, an edge, and noise. */
static uint8_t make_sample(int x, int y, int c, int number, uint32_t *random) {
  const double u = x + 37 * number, v = y - 11 * number;
  double value = 120 + 40 * sin(u / (31 + 7 * c)) + 30 * cos(v / (23 - 3 * c)) +
                 12 * sin((u + v) / 5) + 8 * cos((2 * u - v) / 3);
  if ((int)(u / 60 + v / 90) % 2 == 0) value += 25;
  *random = *random * 1664525 + 1013904223;
  value += (double)(*random >> 24) / 16 - 8;
  return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void write_file(const char *path, int height, int width, int number) {
  struct jpeg_compress_struct info;
  struct jpeg_error_mgr errors;
  uint32_t random = (uint32_t)number;
  uint8_t *row = malloc((size_t)width * 3);
  FILE *file = fopen(path, "wb");
  if (!file || !row) measure_fail("%s cannot be written", path);
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file);
  info.image_width = (JDIMENSION)width;
  info.image_height = (JDIMENSION)height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, QUALITY, TRUE);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < height; ++y) {
    for (int i = 0; i < 3 * width; ++i)
      row[i] = make_sample(i / 3, y, i % 3, number, &random);
    (void)jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  free(row);
  if (fclose(file) != 0) measure_fail("%s cannot be written", path);
}

static void write_folder(const char *folder, int height, int width, int n) {
  for (int i = 0; i < n && i < MOST; ++i) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%02d.jpg", folder, i);
    write_file(path, height, width, i);
  }
}

/* -------------------------------------------------------------------- read */

typedef struct task {
  struct jpeg_decompress_struct info;
  struct jpeg_error_mgr errors;
  unsigned char *files[MOST];
  unsigned long bytes[MOST];
  int n;
  uint8_t *pixels;
  size_t room;
} task;

static void read_folder(task *t, const char *folder) {
  DIR *list = opendir(folder);
  if (!list) measure_fail("%s cannot be read", folder);
  for (struct dirent *each; t->n < MOST && (each = readdir(list));) {
    char path[4096];
    if (!strstr(each->d_name, ".jpg")) continue;
    (void)snprintf(path, sizeof path, "%s/%s", folder, each->d_name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
      measure_fail("%s cannot be read", path);
    const size_t n = (size_t)ftell(file);
    rewind(file);
    t->files[t->n] = malloc(n);
    t->bytes[t->n] = n;
    if (!t->files[t->n] || fread(t->files[t->n], 1, n, file) != n)
      measure_fail("%s cannot be read", path);
    (void)fclose(file);
    ++t->n;
  }
  (void)closedir(list);
}

static void decode_file(task *t, int i) {
  struct jpeg_decompress_struct *info = &t->info;
  jpeg_mem_src(info, t->files[i], t->bytes[i]);
  (void)jpeg_read_header(info, TRUE);
  info->out_color_space = JCS_RGB;
  (void)jpeg_start_decompress(info);
  const size_t stride = (size_t)info->output_width * 3;
  if (stride * info->output_height > t->room) {
    t->room = stride * info->output_height;
    free(t->pixels);
    t->pixels = malloc(t->room);
    if (!t->pixels) measure_fail("no memory for pixels");
  }
  while (info->output_scanline < info->output_height) {
    uint8_t *rows[ROWS];
    for (JDIMENSION k = 0; k < ROWS; ++k)
      rows[k] = t->pixels + stride * (info->output_scanline + k);
    const JDIMENSION rest = info->output_height - info->output_scanline;
    (void)jpeg_read_scanlines(info, rows, rest < ROWS ? rest : ROWS);
  }
  (void)jpeg_finish_decompress(info);
}

static void decode_each(void *arg) {
  task *t = arg;
  for (int i = 0; i < t->n; ++i) decode_file(t, i);
}

int main(int argc, char **argv) {
  static task t;
  if (argc == 6 && strcmp(argv[1], "write") == 0) {
    write_folder(argv[2], atoi(argv[3]), atoi(argv[4]), atoi(argv[5]));
    return 0;
  }
  if (argc != 3 || strcmp(argv[1], "read") != 0)
    measure_fail(
        "usage: images_jpeg write FOLDER HEIGHT WIDTH N, or read FOLDER");
  t.info.err = jpeg_std_error(&t.errors);
  jpeg_create_decompress(&t.info);
  read_folder(&t, argv[2]);
  const double each = measure_cpu(decode_each, &t, SECONDS);
  printf("decode %.1f\n", t.n * 1e9 / each);
  jpeg_destroy_decompress(&t.info);
  for (int i = 0; i < t.n; ++i) free(t.files[i]);
  free(t.pixels);
  return 0;
}
