/* SPDX-License-Identifier: Apache-2.0
 * The nets that train.c and its peer train alike, with a plain step of every
 * weight.
 */
#ifndef TENON_BENCH_TRAIN_H_
#define TENON_BENCH_TRAIN_H_

#include <stdint.h>

#define TRAIN_SECONDS 0.5 /* of one measurement */
#define TRAIN_RATE 0.0001

/* Layers that connect all with all, with relu between them. */
enum { MLP_BATCH = 64, MLP_LAYERS = 3 };
static const int64_t mlp_widths[] = {784, 512, 512, 10};

/* LeNet-5 on images of 28 x 28: two convolutions of 5 x 5, each followed by
 * relu and a maximum over 2 x 2, then three fully connected layers. The first
 * convolution is padded, so that the image stays 28 x 28. */
enum { LENET_BATCH = 64, LENET_SIDE = 28, LENET_LAYERS = 3 };
static const int64_t lenet_filters[] = {6, 16};
static const int64_t lenet_widths[] = {400, 120, 84, 10};

/* ResNet-18 and ResNet-50 on images of 224 x 224. */
enum { RESNET_BATCH = 8, RESNET_SIDE = 224, RESNET_STAGES = 4 };
enum { RESNET_WIDER = 4 }; /* output channels of a block of ResNet-50 */
static const int64_t resnet_filters[] = {64, 128, 256, 512};
static const int resnet50_blocks[] = {3, 4, 6, 3};

#endif /* TENON_BENCH_TRAIN_H_ */
