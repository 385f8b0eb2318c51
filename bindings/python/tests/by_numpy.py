# SPDX-License-Identifier: Apache-2.0
"""Arrays beside those of NumPy, for tests that compare both."""

import itertools

import numpy as np

import tenon as tn

PLAIN = ["f16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"]
PAIRS = list(itertools.product(PLAIN, PLAIN))
NUMPY = {name: getattr(tn, name).numpy for name in PLAIN}


def make(shape, name, seed=0):
    """Elements of a type that every operator of Python can combine without overflow."""
    values = np.random.RandomState(seed).randint(1, 4, shape)
    return values.astype(NUMPY[name])


def same(found, wanted):
    wanted = np.asarray(wanted)
    assert isinstance(found, tn.Array)
    assert found.shape == wanted.shape
    assert found.dtype.numpy == wanted.dtype
    np.testing.assert_array_equal(found.numpy(), wanted)
