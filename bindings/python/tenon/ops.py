# SPDX-License-Identifier: Apache-2.0
"""Operators of the loaded plugins, as functions: `tn.ops.<plugin>.<operator>`.

    tn.ops.nn.softmax(x, axis=-1)
    help(tn.ops.nn.softmax)
    dir(tn.ops.nn)

A function takes its inputs by position or by name, its parameters by name, and `out`: an array for
the result, or a tuple of arrays and None for several ones. Its `__self__.json` is the description
of the operator.
"""

from tenon import _core

_functions = {}   # by name, as "nn.softmax"
_namespaces = {}  # by plugin


class Namespace:
    """The operators of one plugin."""

    def __init__(self, plugin):
        self.__name__ = f"tenon.ops.{plugin}"
        self._plugin = plugin

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            function = find_operator(f"{self._plugin}.{name}")
        except LookupError as error:
            raise AttributeError(f"plugin {self._plugin!r} has no operator {name!r}"
                                 + _suggest(name, dir(self))) from error
        setattr(self, name, function)
        return function

    def __dir__(self):
        start = self._plugin + "."
        return sorted({each.partition("@")[0][len(start):] for each in _core.list_operators()
                       if each.startswith(start)})

    def __repr__(self):
        return f"<operators of the plugin {self._plugin!r}>"


def _suggest(name, names):
    import difflib
    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def find_operator(name):
    """The function of an operator, by its full name.

        tn.ops.find_operator("elemwise.add")
    """
    function = _functions.get(name)
    if function is None:
        function = _functions.setdefault(name, _core.operator(name))
    return function


def list_operators():
    """The full names of all operators, as "elemwise.add@1"."""
    return _core.list_operators()


def forget(plugin=None):
    """Drops the functions of a plugin, so that it can be unloaded."""
    for name in [each for each in _functions if plugin in (None, each.partition(".")[0])]:
        del _functions[name]
    space = _namespaces.pop(plugin, None)
    if space is not None:
        globals().pop(plugin, None)
        space.__dict__ = {"__name__": space.__name__, "_plugin": plugin}


def _plugins():
    return sorted({each.partition(".")[0] for each in _core.list_operators()})


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    if name not in _plugins():
        raise AttributeError(f"no loaded plugin has operators of the name {name!r}"
                             + (_suggest(name, _plugins()) or "; load it with tenon.load()"))
    space = _namespaces.setdefault(name, Namespace(name))
    globals()[name] = space
    return space


def __dir__():
    return [*_plugins(), "find_operator", "list_operators"]
