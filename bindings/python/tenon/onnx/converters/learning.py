# SPDX-License-Identifier: Apache-2.0
"""Classical machine learning: n-grams, scaling, encoding, and linear models of numbers."""

from typing import Any, List

import numpy as np

from .. import types
from ..node import Node
from ..registry import ML, converter
from ..values import Value, make_constant
from .trees import transform_scores


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


def _as_float(node: Node, x: Value) -> Value:
    return x if x.dtype == "f32" else node.build.cast(x, "f32")


@converter("Scaler", domain=ML)
def convert_scaler(node: Node, x: Value) -> Value:
    """Subtracts an offset from each column, and multiplies by a factor."""
    build = node.build
    offset = make_constant(node.attribute("offset"), "f32")
    scale = make_constant(node.attribute("scale"), "f32")
    return build.mul(build.sub(_as_float(node, x), offset), scale)


@converter("Normalizer", domain=ML)
def convert_normalizer(node: Node, x: Value) -> Value:
    """Divides each row by its norm; rows of zeros stay."""
    build, kind = node.build, node.attribute("norm", "MAX")
    x = _as_float(node, x)
    if kind == "MAX":
        size = build.call("tensor.max", build.call("elemwise.abs", x), axis=[-1], keepdims=True)
    elif kind in ("L1", "L2"):
        size = build.call("tensor.norm", x, axis=[-1], keepdims=True, ord=int(kind[1]))
    else:
        raise node.refuse(f"`norm` {kind!r}")
    zero = build.call("elemwise.is_equal", size, build.full((), 0, "f32"))
    return build.div(x, build.where(zero, build.full((), 1, "f32"), size))


@converter("FeatureVectorizer", domain=ML)
def convert_feature_vectorizer(node: Node, *inputs: Value) -> Value:
    """Puts columns side by side."""
    return node.build.concat([_as_float(node, x) for x in inputs], 1)


@converter("Imputer", domain=ML)
def convert_imputer(node: Node, x: Value) -> Value:
    """Replaces missing numbers, column by column."""
    build = node.build
    name = "float" if x.dtype in types.FLOATS else "int64"
    values = make_constant(node.attribute(f"imputed_value_{name}s"), x.dtype)
    missing = node.attribute(f"replaced_value_{name}", 0)
    if missing != missing:
        found = build.call("elemwise.is_nan", x)
    else:
        found = build.call("elemwise.is_equal", x, build.full((), missing, x.dtype))
    return build.where(found, values, x)


@converter("OneHotEncoder", domain=ML)
def convert_one_hot_encoder(node: Node, x: Value) -> Value:
    """A column for each category; others are 0 everywhere."""
    categories = node.attribute("cats_int64s")
    if categories is None:
        raise node.refuse("Tenon has no strings")
    if not node.attribute("zeros", 1):
        raise node.refuse("`zeros` is 0: unknown categories are errors")
    hits = _compare_with_keys(node, node.build.cast(x, "i64"), categories, "i64")
    return node.build.cast(hits, "f32")


def _compare_with_keys(node: Node, x: Value, keys: List[Any], dtype: str) -> Value:
    """Compares each element with each key: a new last axis of bools."""
    column = node.build.reshape(x, x.shape + (1,))
    return node.build.call("elemwise.is_equal", column, make_constant(keys, dtype))


@converter("LabelEncoder", since=2, domain=ML)
def convert_label_encoder(node: Node, x: Value) -> Value:
    """Replaces numbers by those of a table; others by a default."""
    build = node.build
    if x.dtype == types.STRING or node.has("values_strings"):
        raise node.refuse("Tenon has no strings")
    keys = _read_table(node, "keys")
    values = _read_table(node, "values")
    default = _read_default(node, values.dtype)
    hits = _compare_with_keys(node, x, keys, x.dtype)
    place = build.call("tensor.argmax", build.cast(hits, "u8"), axis=x.rank)
    known = build.cast(build.call("tensor.max", build.cast(hits, "u8"), axis=[x.rank]), "bool")
    chosen = build.call("tensor.take", make_constant(values), place, axis=0, mode="clip")
    return build.where(known, chosen, make_constant(np.asarray(default, values.dtype)))


def _read_table(node: Node, name: str) -> np.ndarray:
    for kind, dtype in (("int64s", np.int64), ("floats", np.float32)):
        if node.has(f"{name}_{kind}"):
            return np.asarray(node.attribute(f"{name}_{kind}"), dtype)
    table = node.attribute(f"{name}_tensor")
    if table is None or table.dtype.kind not in "if":
        raise node.refuse("Tenon has no strings")
    return table.reshape(-1)


def _read_default(node: Node, dtype: np.dtype) -> Any:
    tensor = node.attribute("default_tensor")
    if tensor is not None:
        return tensor.reshape(-1)[0]
    if dtype.kind == "i":
        return node.attribute("default_int64", -1)
    return node.attribute("default_float", -0.0)


@converter("LinearRegressor", domain=ML)
def convert_linear_regressor(node: Node, x: Value) -> Value:
    """Products with weights, and a bias."""
    scores = _compute_scores(node, x, node.attribute("targets", 1))
    return transform_scores(node, scores, node.attribute("post_transform", "NONE"))


@converter("LinearClassifier", domain=ML)
def convert_linear_classifier(node: Node, x: Value) -> List[Value]:
    """The best class, and the scores of all."""
    build = node.build
    labels = node.attribute("classlabels_ints")
    if not labels:
        raise node.refuse("Tenon has no strings")
    n_rows = len(node.attribute("coefficients")) // x.shape[-1]
    if n_rows != len(labels):
        raise node.refuse(f"{len(labels)} classes with {n_rows} rows of coefficients")
    scores = _compute_scores(node, x, n_rows)
    best = build.call("tensor.argmax", scores, axis=1)
    chosen = build.call("tensor.take", make_constant(labels, "i64"), best, axis=0)
    return [chosen, transform_scores(node, scores, node.attribute("post_transform", "NONE"))]


def _compute_scores(node: Node, x: Value, n_rows: int) -> Value:
    weights = np.asarray(node.attribute("coefficients"), np.float32).reshape(n_rows, -1)
    product = node.build.dot(_as_float(node, x), make_constant(np.ascontiguousarray(weights.T)))
    bias = node.attribute("intercepts")
    return node.build.add(product, make_constant(bias, "f32")) if bias else product
