# SPDX-License-Identifier: Apache-2.0
"""Keys with arrays, and assignments. tenon._core finds the views of other keys itself."""

from tenon import _core
from tenon._arithmetic import broadcast_shapes
from tenon._convert import Array, convert_any
from tenon._errors import OutOfRangeError
from tenon.ops import find_operator


def _split_key(key, ndim):
    """The items of a key for every axis: "..." and omitted axes become full slices. A "..." for no
    axis remains, because it separates arrays."""
    used = sum(_count_axes(each) for each in key)
    if sum(each is Ellipsis for each in key) > 1:
        raise IndexError("an index has at most one `...`")
    if used > ndim:
        raise IndexError(f"too many indices: the array has {ndim} dimensions")
    rest = [slice(None)] * (ndim - used)
    items = []
    for each in key:
        if each is Ellipsis:
            items += rest or [Ellipsis]
            rest = []
        else:
            items.append(each)
    return items + rest


def _count_axes(item):
    if isinstance(item, Array) and item.dtype.name == "bool":
        return item.ndim
    return 0 if item is None or item is Ellipsis else 1


def _as_index(item):
    if isinstance(item, slice) or item is None or item is Ellipsis:
        return item
    if isinstance(item, (bool, str, bytes)):
        raise _index_error(item)
    if isinstance(item, int):
        return item
    found = item
    if not isinstance(item, Array):
        if not isinstance(item, (list, tuple, range)) and not hasattr(item, "__array__"):
            if hasattr(item, "__index__"):
                return item.__index__()
            raise _index_error(item)
        found = _core.convert(item)
        if found.dtype.is_float and found.size == 0:
            found = found.astype("i64")
    if found.dtype.kind not in ("int", "uint", "bool") or found.dtype.bits < 8:
        raise IndexError(f"arrays of {found.dtype} are no indices; convert them with "
                         "astype('i64')")
    if found.dtype.name == "bool" and found.ndim == 0:
        raise _index_error(item)
    return found


def _index_error(item):
    if isinstance(item, (bool, Array)) or hasattr(item, "__array__"):
        return IndexError("True and False are no indices; use an array of bools")
    return IndexError("an index is an int, a slice, None, ... or an array of integers or bools, "
                      f"not a {type(item).__name__}")


def _prepare_arrays(array, key):
    """Of a key with arrays: the view of its other items, the arrays, their axes in the view, and
    the place of their axes in the result."""
    key = key if isinstance(key, tuple) else (key,)
    items = _split_key([_as_index(each) for each in key], array.ndim)
    items = _expand_bools(items, array.shape)
    where = [i for i, each in enumerate(items) if isinstance(each, (Array, int))]
    is_apart = where[-1] - where[0] + 1 != len(where)
    view = array[tuple(slice(None) if isinstance(each, Array) else each for each in items)]
    kept = [each for each in items if not isinstance(each, int) and each is not Ellipsis]
    axes = [i for i, each in enumerate(kept) if isinstance(each, Array)]
    arrays = [kept[i].astype("i64", copy=False) for i in axes]
    place = sum(each is not Ellipsis for each in items[:where[0]])
    return view, arrays, axes, 0 if is_apart else place


def _expand_bools(items, shape):
    """Replaces arrays of bools by the indices of their true elements."""
    result, axis = [], 0
    for each in items:
        if isinstance(each, Array) and each.dtype.name == "bool":
            if each.shape != shape[axis:axis + each.ndim]:
                raise IndexError(f"an array of bools with shape {each.shape} cannot be the index "
                                 f"of axes with shape {shape[axis:axis + each.ndim]}")
            found = find_operator("tensor.nonzero")(each)
            result += [found[i] for i in range(each.ndim)]
        else:
            result.append(each)
        axis += _count_axes(each)
    return result


def _move_arrays(view, arrays, axes):
    """The view with the axes of the arrays first, the arrays in one shape, and that shape."""
    moved = view.transpose([*axes, *(i for i in range(view.ndim) if i not in axes)])
    shapes = [each.shape for each in arrays]
    try:
        shape = broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(f"arrays of shapes {' and '.join(map(str, shapes))} do not fit together "
                         "as indices") from None
    wrapped = [_wrap(each, moved.shape[i]).broadcast_to(shape) for i, each in enumerate(arrays)]
    return moved, wrapped, shape


def get_item(array, key):
    view, arrays, axes, place = _prepare_arrays(array, key)
    if len(arrays) == 1 and axes[0] == place:
        return find_operator("tensor.take")(view, _wrap(arrays[0], view.shape[place]), axis=place)
    moved, wrapped, shape = _move_arrays(view, arrays, axes)
    found = find_operator("tensor.gather_nd")(moved, find_operator("tensor.stack")(wrapped))
    n = len(shape)
    return found.transpose([*range(n, n + place), *range(n), *range(n + place, found.ndim)])


def _wrap(indices, size):
    """Indices below 0 count from the end."""
    if size == 0 or indices.size == 0:
        return indices
    low = find_operator("tensor.min")(indices).item()
    high = find_operator("tensor.max")(indices).item()
    if low < -size or high >= size:
        raise OutOfRangeError(f"index {high if high >= size else low} is outside of an axis of "
                              f"size {size}")
    return indices if low >= 0 else find_operator("tensor.where")(indices < 0, indices + size,
                                                                 indices)


def set_item(array, key, value):
    if _core.get_recording() is not None and array.dtype.is_float:
        return record_item(array, key, value)
    view, arrays, axes, place = _prepare_arrays(array, key)
    moved, wrapped, shape = _move_arrays(view, arrays, axes)
    if 0 in moved.shape + shape:
        return None
    rest = moved.shape[len(arrays):]
    value = convert_any(value, array).astype(array.dtype, copy=False)
    wide = _fit(value, rest[:place] + shape + rest[place:])
    n = len(shape)
    wide = wide.transpose([*range(place, place + n), *range(place), *range(place + n, wide.ndim)])
    new = find_operator("tensor.scatter_nd_update")(
        moved, find_operator("tensor.stack")(wrapped), wide.copy(), index_axis=0)
    return assign(moved, new)


def record_item(array, key, value):
    """Assigns to a part of an array while calls are recorded: as a new whole array, because tapes
    know arrays as a whole."""
    if key is Ellipsis or not array.dtype.is_float:
        return assign(array[key], value)
    places = find_operator("tensor.arange")(start=0, stop=array.size, dtype="i64")
    places = places.reshape(array.shape)[key]
    value = _fit(convert_any(value, array).astype(array.dtype, copy=False), places.shape)
    if places.size == 0:
        return None
    places = places.reshape(1, -1)
    new = find_operator("tensor.scatter_nd_update")(array.reshape(-1), places, value.reshape(-1),
                                                    index_axis=0)
    return assign(array, new.reshape(array.shape))


def _fit(value, shape):
    """The value in a shape that it is assigned to."""
    extra = value.ndim - len(shape)
    if extra > 0 and set(value.shape[:extra]) <= {1}:
        value = value.reshape(value.shape[extra:])
    return value.broadcast_to(shape)


def assign(view, value):
    """Overwrites the elements of a view."""
    value = convert_any(value, view)
    value = _fit(value, view.shape)
    if _core.get_recording() is not None and value.dtype == view.dtype:
        find_operator("elemwise.copy")(value, out=view)
    else:
        view._copy_from(value)
