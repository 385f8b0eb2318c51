# SPDX-License-Identifier: Apache-2.0
"""Classical machine learning: n-grams of numbers."""

import numpy as np

from ..node import Node
from ..registry import converter
from ..values import Value, make_constant


@converter("TfIdfVectorizer", since=9)
def convert_ngrams(node: Node, x: Value) -> Value:
    """Counts of n-grams, weighted by their frequency."""
    build = node.build
    pool = node.attribute("pool_int64s")
    if pool is None:
        raise node.refuse("Tenon has no strings")
    places = node.attribute("ngram_indexes")
    counts = _count_ngrams(node, build.cast(x, "i64"), pool)
    matrix = np.zeros((len(places), max(places) + 1), np.float32)
    matrix[np.arange(len(places)), places] = 1
    mode, weights = node.attribute("mode"), node.attribute("weights")
    if weights is not None and mode != "TF":
        factors = np.zeros(max(places) + 1, np.float32)
        factors[places] = weights
    else:
        factors = None
    result = build.dot(build.cast(counts, "f32"), make_constant(matrix))
    if mode == "IDF":
        positive = build.call("elemwise.is_greater", result, build.full((), 0, "f32"))
        result = build.cast(positive, "f32")
    return result if factors is None else build.mul(result, make_constant(factors))


def _count_ngrams(node: Node, x: Value, pool: list) -> Value:
    """Counts all n-grams of the pool; those of unwanted lengths count 0."""
    build = node.build
    starts = node.attribute("ngram_counts") + [len(pool)]
    least, most = node.attribute("min_gram_length"), node.attribute("max_gram_length")
    parts = []
    for index, (begin, end) in enumerate(zip(starts, starts[1:])):
        length = index + 1
        ngrams = np.array(pool[begin:end], np.int64).reshape(-1, length)
        if not len(ngrams):
            continue
        if not least <= length <= most:
            parts.append(build.full(x.shape[:-1] + (len(ngrams),), 0, "i64"))
            continue
        skip = node.attribute("max_skip_count")
        parts.append(
            build.call("tensor.count_ngrams", x, make_constant(ngrams), max_skip=skip)
        )
    return build.concat(parts, x.rank - 1)
