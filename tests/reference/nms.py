#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/nms_cases.inc: values of nms and nms_selected of
plugins/nn for test_nms.c.

    nms.py > nms_cases.inc

The suppression follows the text of ONNX's NonMaxSuppression-11, in doubles; the
first cases are those of its manual. Nothing here knows of Tenon. The committed
file was made with NumPy 1.24.2, Python 3.11.
"""

import numpy as np

from operands import show

RANDOM = np.random.default_rng(3)
MANUAL = [[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11],
          [0, 10.1, 1, 11.1], [0, 100, 1, 101]]
SCORES = [0.9, 0.75, 0.6, 0.95, 0.5, 0.3]


def corners(box, center):
    a, b = np.array(box[:2]), np.array(box[2:])
    if center:
        a, b = a - b / 2, a + b / 2
    return np.minimum(a, b), np.maximum(a, b)


def overlap(one, two):
    low = np.maximum(one[0], two[0])
    high = np.minimum(one[1], two[1])
    areas = [np.prod(each[1] - each[0]) for each in (one, two)]
    if not (high > low).all() or min(areas) <= 0:
        return 0
    common = np.prod(high - low)
    return common / (sum(areas) - common)


def select(boxes, scores, most, limit, threshold, center):
    rows = []
    for image, of_image in enumerate(scores):
        shapes = [corners(box, center) for box in boxes[image]]
        for kind, line in enumerate(of_image):
            chosen = []
            for i in np.argsort(-np.asarray(line), kind="stable"):
                score = line[i]
                if np.isnan(score) or len(chosen) == most or (
                        threshold is not None and not score > threshold):
                    continue
                if all(overlap(shapes[i], shapes[k]) <= limit for k in chosen):
                    chosen.append(i)
            rows += [[image, kind, i] for i in chosen]
    return np.array(rows).reshape(-1, 3)


def case(boxes, scores, most, limit, threshold=None, center=False):
    boxes, scores = np.asarray(boxes, float), np.asarray(scores, float)
    rows = select(boxes, scores, most, limit, threshold, center)
    params = (f"max_output={most} iou_threshold={limit} "
              f"center_point_box={int(center)}")
    if threshold is not None:
        params += f" score_threshold={threshold}"
    print(f'{{"{params}",')
    print(f" {show(boxes)},\n {show(scores)},\n {show(rows)}}},")


def drawn(images, n, kinds, most, limit, threshold=None, center=False):
    boxes = RANDOM.integers(0, 9, size=(images, n, 4)) / 2
    scores = RANDOM.integers(-4, 9, size=(images, kinds, n)) / 4
    scores.flat[RANDOM.integers(scores.size)] = np.nan
    case(boxes, scores, most, limit, threshold, center)


print("/* Written by tests/reference/nms.py. */")
case([MANUAL], [[SCORES]], 3, 0.5, 0.0)
case([MANUAL], [[SCORES]], 2, 0.5, 0.0)
case([MANUAL], [[SCORES]], 30, 0.5, 0.4)
case([MANUAL] * 2, [[SCORES]] * 2, 2, 0.5, 0.0)
case([MANUAL], [[SCORES, SCORES]], 2, 0.5, 0.0)
case([[MANUAL[0]] * 10], [[[0.9] * 10]], 3, 0.5, 0.0)
case([[[1, 1, 0, 0], *MANUAL[1:]]], [[SCORES]], 3, 0.5, 0.0)
case([[[0.5, 0.5, 1, 1], [0.5, 0.6, 1, 1], [0.5, 0.4, 1, 1], [0.5, 10.5, 1, 1],
       [0.5, 10.6, 1, 1], [0.5, 100.5, 1, 1]]], [[SCORES]], 3, 0.5, 0.0, True)
case(np.zeros((1, 0, 4)), np.zeros((1, 2, 0)), 3, 0.5)
case([MANUAL], [[SCORES]], 0, 0.5)
for box_form in False, True:
    drawn(1, 15, 2, 4, 0.25, 0.5, box_form)
    drawn(2, 5, 2, 5, 0.5, None, box_form)
    drawn(1, 12, 1, 12, 0, -0.5, box_form)
