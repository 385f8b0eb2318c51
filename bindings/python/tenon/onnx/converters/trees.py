# SPDX-License-Identifier: Apache-2.0
"""Ensembles of decision trees: `nn.find_leaves` finds the leaves, whose votes are added."""

from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from ..node import Node
from ..registry import ML, converter
from ..values import Value, make_constant

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_EQUAL, _MEMBER = 4, 6
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


class Trees:
    """Inner nodes and leaves; a child is the number of a node, or -1 - leaf."""

    def __init__(self) -> None:
        self.features: List[int] = []
        self.splits: List[float] = []
        self.modes: List[int] = []
        self.if_true: List[int] = []
        self.if_false: List[int] = []
        self.missing: List[bool] = []
        self.roots: List[int] = []

    def add(self, row: Tuple[int, float, int, int, int, bool]) -> int:
        """Adds a node: feature, split, mode, children, and whether NaN goes to the first."""
        lists = (self.features, self.splits, self.modes, self.if_true, self.if_false, self.missing)
        for target, value in zip(lists, row):
            target.append(value)
        return len(self.features) - 1

    def find_leaves(self, node: Node, x: Value) -> Value:
        """Returns the leaf of each row in each tree."""
        return node.build.call(
            "nn.find_leaves",
            x,
            make_constant(self.features, "i64"),
            make_constant(self.splits, x.dtype),
            make_constant(self.modes, "u8"),
            make_constant(self.if_true, "i64"),
            make_constant(self.if_false, "i64"),
            make_constant(self.roots, "i64"),
            make_constant(self.missing, "bool"),
        )


def add_votes(
    node: Node, x: Value, trees: Trees, votes: np.ndarray, aggregate: str
) -> Value:
    """Combines the votes of the leaves, (leaves, targets); NaN is no vote."""
    build = node.build
    fill = {"MIN": np.inf, "MAX": -np.inf}.get(aggregate, 0.0)
    table = make_constant(np.where(np.isnan(votes), fill, votes), x.dtype)
    chosen = build.call("tensor.take", table, trees.find_leaves(node, x), axis=0, mode="clip")
    operator = {"AVERAGE": "sum", "SUM": "sum", "MIN": "min", "MAX": "max"}[aggregate]
    result = build.call(f"tensor.{operator}", chosen, axis=[1])
    if aggregate == "AVERAGE":
        return build.scale(result, 1 / len(trees.roots))
    if aggregate == "SUM":
        return result
    empty = build.call("elemwise.is_inf", result)
    return build.where(empty, build.full((), 0, x.dtype), result)


def transform_scores(node: Node, scores: Value, name: str) -> Value:
    """Applies the function that follows the sums."""
    if name == "NONE":
        return scores
    if name == "SOFTMAX":
        return node.build.call("nn.softmax", scores, axis=-1)
    if name == "LOGISTIC":
        return node.build.call("elemwise.sigmoid", scores)
    raise node.refuse(f"`post_transform` {name}")


# ---------------------------------------------------------------- TreeEnsemble


@converter("TreeEnsemble", since=5, domain=ML)
def convert_tree_ensemble(node: Node, x: Value) -> Value:
    """Trees of leaves with one vote each."""
    weights = node.attribute("leaf_weights").reshape(-1)
    targets = node.attribute("leaf_targetids")
    votes = np.full((len(weights), node.attribute("n_targets")), np.nan)
    votes[np.arange(len(weights)), targets] = weights
    aggregate = _AGGREGATES[node.attribute("aggregate_function", 1)]
    scores = add_votes(node, x, _read_trees(node), votes, aggregate)
    return transform_scores(node, scores, _TRANSFORMS[node.attribute("post_transform", 0)])


def _read_trees(node: Node) -> Trees:
    trees = Trees()
    features = node.attribute("nodes_featureids")
    splits = node.attribute("nodes_splits").reshape(-1)
    modes = node.attribute("nodes_modes").reshape(-1)
    children = [
        _read_children(node.attribute(ids), node.attribute(leaves))
        for ids, leaves in (
            ("nodes_truenodeids", "nodes_trueleafs"),
            ("nodes_falsenodeids", "nodes_falseleafs"),
        )
    ]
    missing = node.attribute("nodes_missing_value_tracks_true", [0] * len(features))
    rows = zip(features, splits, modes, *children, missing)
    for feature, split, mode, if_true, if_false, nan in rows:
        trees.add((feature, float(split), int(mode), if_true, if_false, bool(nan)))
    _expand_members(node, trees)
    trees.roots = node.attribute("tree_roots")
    return trees


def _read_children(ids: List[int], is_leaf: List[int]) -> List[int]:
    return [-1 - number if leaf else number for number, leaf in zip(ids, is_leaf)]


def _expand_members(node: Node, trees: Trees) -> None:
    """Replaces each comparison with a set by a chain of comparisons with its numbers."""
    values = node.attribute("membership_values")
    sets = _split_sets(values.reshape(-1)) if values is not None else []
    places = [i for i, mode in enumerate(trees.modes) if mode == _MEMBER]
    if len(places) > len(sets):
        raise node.refuse(f"{len(places)} nodes compare with sets, and there are {len(sets)}")
    for place, numbers in zip(places, sets):
        feature, if_true, last = trees.features[place], trees.if_true[place], trees.if_false[place]
        nan = trees.missing[place]
        for number in numbers[:0:-1]:
            last = trees.add((feature, float(number), _EQUAL, if_true, last, nan))
        trees.modes[place] = _EQUAL
        trees.splits[place] = float(numbers[0])
        trees.if_false[place] = last


def _split_sets(values: np.ndarray) -> List[List[float]]:
    """Divides a list at its NaN."""
    sets: List[List[float]] = [[]]
    for value in values:
        if np.isnan(value):
            sets.append([])
        else:
            sets[-1].append(float(value))
    return [numbers for numbers in sets if numbers]


# ----------------------------------------------------------- the older two types


@converter("TreeEnsembleRegressor", since=1, domain=ML)
def convert_tree_regressor(node: Node, x: Value) -> Value:
    """Trees of leaves that vote for numbers."""
    trees, leaves = _read_old_trees(node)
    votes = _read_votes(node, "target", leaves, node.attribute("n_targets", 1))
    x = x if x.dtype in ("f32", "f64") else node.build.cast(x, "f32")
    scores = add_votes(node, x, trees, votes, node.attribute("aggregate_function", "SUM"))
    scores = _add_base(node, scores)
    return transform_scores(node, scores, node.attribute("post_transform", "NONE"))


@converter("TreeEnsembleClassifier", since=1, domain=ML)
def convert_tree_classifier(node: Node, x: Value) -> List[Value]:
    """Trees of leaves that vote for classes: the best class, and the scores of all."""
    labels = node.attribute("classlabels_int64s")
    if labels is None:
        raise node.refuse("Tenon has no strings")
    if len(labels) == 2 and len(set(node.attribute("class_ids"))) == 1:
        raise node.refuse("two classes with votes for one of them")
    trees, leaves = _read_old_trees(node)
    votes = _read_votes(node, "class", leaves, len(labels))
    x = x if x.dtype in ("f32", "f64") else node.build.cast(x, "f32")
    scores = _add_base(node, add_votes(node, x, trees, votes, "SUM"))
    best = node.build.call("tensor.argmax", scores, axis=1)
    chosen = node.build.call("tensor.take", make_constant(labels, "i64"), best, axis=0)
    return [chosen, transform_scores(node, scores, node.attribute("post_transform", "NONE"))]


def _add_base(node: Node, scores: Value) -> Value:
    base = _read_numbers(node, "base_values")
    return scores if base is None else node.build.add(scores, make_constant(base, scores.dtype))


def _read_numbers(node: Node, name: str) -> Optional[Any]:
    """Returns an attribute of floats, or of doubles under its other name."""
    found = node.attribute(f"{name}_as_tensor")
    return node.attribute(name) if found is None else found.reshape(-1)


def _read_old_trees(node: Node) -> Tuple[Trees, Dict[tuple, int]]:
    """Returns the trees, and the number of the leaf of each (tree, node)."""
    modes = node.attribute("nodes_modes")
    keys = list(zip(node.attribute("nodes_treeids"), node.attribute("nodes_nodeids")))
    leaves: Dict[tuple, int] = {}
    inner: Dict[tuple, int] = {}
    for key, mode in zip(keys, modes):
        if mode != "LEAF" and mode not in _MODES:
            raise node.refuse(f"the mode {mode!r} of a node")
        table = leaves if mode == "LEAF" else inner
        table[key] = len(table)
    trees = Trees()
    values = _read_numbers(node, "nodes_values")
    missing = node.attribute("nodes_missing_value_tracks_true", [0] * len(keys))
    true_ids, false_ids = node.attribute("nodes_truenodeids"), node.attribute("nodes_falsenodeids")
    features = node.attribute("nodes_featureids")
    for i, (key, mode) in enumerate(zip(keys, modes)):
        if mode == "LEAF":
            continue
        pair = [(key[0], ids[i]) for ids in (true_ids, false_ids)]
        children = [inner[k] if k in inner else -1 - leaves[k] for k in pair]
        row = (features[i], float(values[i]), _MODES.index(mode), *children, bool(missing[i]))
        trees.add(row)
    for key in keys:
        if key[1] == 0:
            trees.roots.append(inner[key] if key in inner else _add_leaf(trees, leaves[key]))
    return trees, leaves


def _add_leaf(trees: Trees, leaf: int) -> int:
    """Adds a tree that is one leaf."""
    return trees.add((0, 0.0, 0, -1 - leaf, -1 - leaf, False))


def _read_votes(node: Node, kind: str, leaves: Dict[tuple, int], count: int) -> np.ndarray:
    votes = np.full((max(len(leaves), 1), count), np.nan)
    weights = _read_numbers(node, f"{kind}_weights")
    keys = zip(node.attribute(f"{kind}_treeids"), node.attribute(f"{kind}_nodeids"))
    for key, target, weight in zip(keys, node.attribute(f"{kind}_ids"), weights):
        old = votes[leaves[key], target]
        votes[leaves[key], target] = weight if np.isnan(old) else old + weight
    return votes
