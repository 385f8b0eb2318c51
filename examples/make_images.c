/* SPDX-License-Identifier: Apache-2.0
 * make_images.c: makes JPEG files to learn from, in a folder for each class:
 * shapes and patterns of random colours, sizes and places. It does not use
 * Tenon.
 *
 *   make_images FOLDER N SEED
 *
 * N files of each class: FOLDER/disk/000.jpg and so on. The same seed makes the
 * same files.
 */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h> /* before jpeglib.h */
#include <stdlib.h>
#include <sys/stat.h>

#include <jpeglib.h>

enum { LEAST = 40, MOST = 64 /* pixels of a side */ };

/* ------------------------------------------------------------------ random */

/* splitmix64: a number from low to high. */
static double draw(uint64_t *state, double low, double high) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return low + (high - low) * ((double)(x >> 11) * 0x1p-53);
}

/* ------------------------------------------------------------------ shapes */

/* Whether a point is on the shape. The shape is between -1 and 1; patterns
 * continue to the edges of the image. */
typedef int shape(double u, double v);

static int is_checker(double u, double v) {
  return ((int)floor(2.5 * u) + (int)floor(2.5 * v)) % 2 != 0;
}

static int is_cross(double u, double v) {
  return (fabs(u) < 0.3 && fabs(v) < 1) || (fabs(v) < 0.3 && fabs(u) < 1);
}

static int is_disk(double u, double v) {
  return u * u + v * v < 1;
}

static int is_ring(double u, double v) {
  return is_disk(u, v) && u * u + v * v > 0.35;
}

static int is_stripe(double u, double v) {
  (void)u;
  return (int)floor(2.5 * v) % 2 != 0;
}

static int is_triangle(double u, double v) {
  return v < 0.7 && fabs(u) < 0.6 * (v + 1);
}

typedef struct class {
  const char *name;
  shape *is_inside;
} class;

/* In the order of their names, as `tenon data pack` counts them. */
static const class classes[] = {
    {"checkers", is_checker}, {"cross", is_cross},
    {"disk", is_disk},        {"ring", is_ring},
    {"stripes", is_stripe},   {"triangle", is_triangle}};

/* ----------------------------------------------------------------- picture */

/* The choices for one image. */
typedef struct picture {
  int width, height, quality;
  double x, y, radius, angle;
  double ground[3], colour[3];
} picture;

/* The two colours differ by at least 90 in one channel. */
static picture choose_picture(uint64_t *state) {
  picture p = {.width = (int)draw(state, LEAST, MOST + 1),
               .height = (int)draw(state, LEAST, MOST + 1),
               .quality = (int)draw(state, 70, 96),
               .angle = draw(state, -0.4, 0.4)};
  const int side = p.width < p.height ? p.width : p.height;
  const int main_channel = (int)draw(state, 0, 3);
  p.radius = draw(state, 0.28, 0.42) * side;
  p.x = p.width / 2.0 + draw(state, -0.08, 0.08) * side;
  p.y = p.height / 2.0 + draw(state, -0.08, 0.08) * side;
  for (int c = 0; c < 3; ++c) {
    p.ground[c] = draw(state, 20, 235);
    p.colour[c] = draw(state, 20, 235);
  }
  if (fabs(p.ground[main_channel] - p.colour[main_channel]) < 90)
    p.colour[main_channel] =
        p.ground[main_channel] + (p.ground[main_channel] < 128 ? 110 : -110);
  return p;
}

/* One row of the picture, with a little noise. */
static void draw_row(const picture *p, shape *is_inside, int y, uint64_t *state,
                     JSAMPLE *row) {
  const double c = cos(p->angle), s = sin(p->angle);
  for (int x = 0; x < p->width; ++x) {
    const double dx = (x - p->x) / p->radius, dy = (y - p->y) / p->radius;
    const int inside = is_inside(c * dx + s * dy, c * dy - s * dx);
    for (int k = 0; k < 3; ++k) {
      const double value =
          (inside ? p->colour[k] : p->ground[k]) + draw(state, -12, 12);
      row[3 * x + k] = (JSAMPLE)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
  }
}

/* ------------------------------------------------------------------- files */

/* Writes one file; libjpeg ends the program if it fails. */
static void compress_picture(FILE *file, const picture *p, shape *is_inside,
                             uint64_t *state) {
  struct jpeg_compress_struct info;
  struct jpeg_error_mgr errors;
  JSAMPLE pixels[3 * MOST], *row = pixels;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file);
  info.image_width = (JDIMENSION)p->width;
  info.image_height = (JDIMENSION)p->height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, p->quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < p->height; ++y) {
    draw_row(p, is_inside, y, state, row);
    (void)jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
}

static int write_picture(const char *path, shape *is_inside, uint64_t *state) {
  const picture p = choose_picture(state);
  FILE *file = fopen(path, "wb");
  if (file) {
    compress_picture(file, &p, is_inside, state);
    if (fclose(file) == 0) return 1;
  }
  fprintf(stderr, "%s: cannot be written\n", path);
  return 0;
}

static int make_folder(const char *path) {
  if (mkdir(path, 0777) == 0 || errno == EEXIST) return 1;
  fprintf(stderr, "%s: cannot be made\n", path);
  return 0;
}

int main(int argc, char **argv) {
  char path[4096];
  if (argc != 4) {
    fprintf(stderr, "usage: make_images FOLDER N SEED\n");
    return 2;
  }
  const int n = atoi(argv[2]);
  uint64_t state = strtoull(argv[3], NULL, 10);
  if (!make_folder(argv[1])) return 1;
  for (size_t c = 0; c < sizeof classes / sizeof *classes; ++c) {
    (void)snprintf(path, sizeof path, "%s/%s", argv[1], classes[c].name);
    if (!make_folder(path)) return 1;
    for (int i = 0; i < n; ++i) {
      (void)snprintf(path, sizeof path, "%s/%s/%03d.jpg", argv[1],
                     classes[c].name, i);
      if (!write_picture(path, classes[c].is_inside, &state)) return 1;
    }
  }
  return 0;
}
