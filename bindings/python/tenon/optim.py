# SPDX-License-Identifier: Apache-2.0
"""Steps of optimizers over dictionaries of parameters.

    params = {"w": tn.zeros((3, 2)).attach_grad(), "b": tn.zeros(2).attach_grad()}
    step = tn.optim.adam(params, learning_rate=0.01)
    with tn.record():
        loss = ((x @ params["w"] + params["b"] - y) ** 2).mean()
    loss.backward()
    step.step()

An optimizer is an operator `<name>_update` of the plugin `optim`: list_optimizers() has their
names, and help(tn.optim.adam) their formula and settings. The full name of an operator of another
plugin works as well, if its inputs are a weight and a gradient, and its output is the new weight.
"""

import difflib
import inspect
import json

from tenon import _core
from tenon._errors import InvalidError, NotFoundError, ShapeError
from tenon.ops import find_operator, list_operators

_SUFFIX = "_update"
_FULL_NAMES = {"learning_rate": "lr", "weight_decay": "wd"}
_SHORT_NAMES = {short: full for full, short in _FULL_NAMES.items()}
_STEPS = "steps"  # name of the number of steps in a saved state


def list_optimizers():
    """The names of all optimizers: "adam", "sgd" ...

        tn.optim.list_optimizers()
    """
    names = [each.partition("@")[0] for each in list_operators()]
    start = "optim."
    return sorted(name[len(start):-len(_SUFFIX)] for name in names
                  if name.startswith(start) and name.endswith(_SUFFIX)
                  and not name.startswith(start + "mp_"))


class _Rule:
    """The operator of an optimizer, with its description."""

    def __init__(self, operator):
        self.function = find_operator(operator)
        self.name = operator
        whole = json.loads(self.function.__self__.json)
        self.states = [(each["name"], each["dtype"], each["initial"]) for each in whole["aux"]]
        self.params = [each["name"] for each in whole["params"]]
        self.counts = any(each["name"] == "step" and each["type"] == "int"
                          for each in whole["params"])
        inputs = [each["name"] for each in whole["inputs"]]
        if len(inputs) != 2 or len(whole["outputs"]) != 1:
            raise ValueError(f"{operator} is no optimizer: its inputs are {', '.join(inputs)}; "
                             "they must be a weight and a gradient, and its output a new weight")


def _find_rule(name, with_momentum, multi_precision):
    """The rule of "sgd"; the one with momentum or with a weight in f32 if it is requested."""
    if "." in name:
        return _Rule(name)
    names = list_optimizers()
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        raise NotFoundError(f"there is no optimizer {name!r}"
                            + (f"; did you mean {near[0]!r}?" if near
                               else f"; there are {', '.join(names)}"))
    if with_momentum and name + "_mom" in names:
        name += "_mom"
    if not multi_precision:
        return _Rule(f"optim.{name}{_SUFFIX}")
    try:
        return _Rule(f"optim.mp_{name}{_SUFFIX}")
    except LookupError:
        raise ValueError(f"the optimizer {name!r} cannot keep weights in f32; multi_precision is "
                         "for sgd") from None


class Optimizer:
    """Steps of one optimizer for a dictionary of parameters, which it changes in place.

    - `params`: a dict from names to arrays. step() uses their `grad`.
    - `learning_rate`: a number, or a function of the number of the step, from 1.
    - `multi_precision`: weights of f16 and bf16 are kept in f32 as well, so that short steps add
      up.
    - `overrides`: a dict from names of parameters to settings that differ for them.
    - the settings of the operator: `weight_decay`, `momentum`, `clip_gradient`, `rescale_grad`,
      `beta1` ...; with `momentum`, "sgd" is "sgd_mom". None is the same as absent.

        step = tn.optim.Optimizer("sgd", params, learning_rate=0.1, momentum=0.9,
                                  weight_decay=1e-4, overrides={"b": {"weight_decay": 0}})
    """

    def __init__(self, name, params, learning_rate, multi_precision=False, overrides=None,
                 **settings):
        self.name = name
        self.params = dict(params)
        self.settings = {"learning_rate": learning_rate, **settings}
        self.overrides = {key: dict(each) for key, each in (overrides or {}).items()}
        self.steps = 0
        self._multi_precision = multi_precision
        self._states = {}  # by name of the parameter: arrays
        self._rules = {}  # by the arguments of _find_rule
        unknown = sorted(set(self.overrides) - set(self.params))
        if unknown:
            raise ValueError(f"`overrides` names {', '.join(unknown)}, but the parameters are "
                             f"{', '.join(self.params)}")
        for key, each in self.params.items():
            if not isinstance(each, _core.Array):
                raise TypeError(f"parameter {key!r} must be an Array, not a "
                                f"{type(each).__name__}; use tn.array()")
            self._get_settings(key)

    @property
    def learning_rate(self):
        """The length of the next step; assign a number or a function of the step to change it.

            step.learning_rate = 0.001
        """
        return self._get_rate(self.settings, self.steps + 1)

    @learning_rate.setter
    def learning_rate(self, value):
        self.settings["learning_rate"] = value

    @staticmethod
    def _get_rate(settings, step):
        rate = settings["learning_rate"]
        return float(rate(step) if callable(rate) else rate)

    def _find_rule(self, key, settings):
        low = self.params[key].dtype.name in ("f16", "bf16")
        kind = ("momentum" in settings, bool(self._multi_precision) and low)
        if kind not in self._rules:
            self._rules[kind] = _find_rule(self.name, *kind)
        return self._rules[kind]

    def _get_settings(self, key):
        """The rule of a parameter and its settings, checked."""
        settings = {**self.settings, **self.overrides.get(key, {})}
        settings = {name: each for name, each in settings.items() if each is not None}
        rule = self._find_rule(key, settings)
        for each in settings:
            if _FULL_NAMES.get(each, each) not in rule.params:
                known = [_SHORT_NAMES.get(name, name) for name in rule.params]
                near = difflib.get_close_matches(each, known, 1)
                raise TypeError(f"{rule.name} has no setting {each!r}"
                                + (f"; did you mean {near[0]!r}?" if near
                                   else f"; it has {', '.join(known)}"))
        return rule, settings

    # ------------------------------------------------------------------ steps

    def step(self, grads=None):
        """Changes all parameters by one step.

        `grads`: the gradients, a dict by name or a list in the order of the parameters; without
        it, the `grad` of each parameter. A parameter whose gradient is None keeps its value.

            loss.backward()
            step.step()
        """
        grads = self._match_gradients(grads)
        number = self.steps + 1
        before = _core.set_recording(None)
        try:
            for key, gradient in grads.items():
                if gradient is not None:
                    self._change(key, gradient, number)
        finally:
            _core.set_recording(before)
        self.steps = number

    def _match_gradients(self, grads):
        """The gradients by name."""
        if grads is None:
            grads = {key: each.grad for key, each in self.params.items()}
            if all(each is None for each in grads.values()):
                raise InvalidError("no parameter has a gradient: call attach_grad() for them "
                                   "before they are recorded, then backward() of the loss")
            return grads
        if not hasattr(grads, "keys"):
            grads = list(grads)
            if len(grads) != len(self.params):
                raise ValueError(f"there are {len(self.params)} parameters and {len(grads)} "
                                 "gradients")
            return dict(zip(self.params, grads))
        for kind, names in (("no gradient for", set(self.params) - set(grads)),
                            ("no parameter with the name", set(grads) - set(self.params))):
            if names:
                raise ValueError(f"there is {kind} {', '.join(sorted(names))}; pass None for the "
                                 "gradient of a parameter to keep")
        return grads

    def _change(self, key, gradient, number):
        weight = self.params[key]
        if gradient.shape != weight.shape:
            raise ShapeError(f"parameter {key!r} has shape {weight.shape}, but its gradient has "
                             f"{gradient.shape}")
        rule, settings = self._get_settings(key)
        passed = {_FULL_NAMES.get(name, name): value for name, value in settings.items()}
        passed["lr"] = self._get_rate(settings, number)
        if rule.counts:
            passed.setdefault("step", number)
        states = self._states.get(key)
        if states is None:
            states = self._states[key] = self._make_states(rule, weight)
        rule.function(weight, gradient.astype(weight.dtype, copy=False), *states.values(),
                      out=weight, **passed)

    @staticmethod
    def _make_states(rule, weight):
        """The first states: those without an initial value are copies of the weight."""
        from tenon import full
        made = {}
        for name, dtype, initial in rule.states:
            dtype = dtype or weight.dtype
            made[name] = weight.astype(dtype) if initial is None else full(
                weight.shape, float(initial), dtype, weight.device)
        return made

    def clear_gradients(self):
        """Sets the gradients of all parameters to None; needed after attach_grad("add") only.

            step.clear_gradients()
        """
        for each in self.params.values():
            each.grad = None

    # ------------------------------------------------------------------ state

    @property
    def state(self):
        """The state as a dict of arrays: "<parameter>.<state>", and the number of "steps".

            step.state["w.mom"]
        """
        from tenon import array
        found = {f"{key}.{name}": each for key, states in self._states.items()
                 for name, each in states.items()}
        return {_STEPS: array(self.steps, dtype="i64"), **found}

    @state.setter
    def state(self, arrays):
        arrays = dict(arrays)
        if _STEPS not in arrays:
            raise ValueError(f"this is no state of an optimizer: it has no array {_STEPS!r}")
        steps, found = int(arrays.pop(_STEPS)), {}
        for key, weight in self.params.items():
            mine = {name: each for name, each in arrays.items()
                    if name.rpartition(".")[0] == key}
            if mine:
                found[key] = self._take_states(key, weight, mine)
                arrays = {name: each for name, each in arrays.items() if name not in mine}
        if arrays:
            raise ValueError(f"the state has {', '.join(sorted(arrays))}, but the parameters are "
                             f"{', '.join(self.params)}")
        self.steps, self._states = steps, found

    def _take_states(self, key, weight, arrays):
        """Copies of the states of one parameter."""
        rule, _ = self._get_settings(key)
        names = [f"{key}.{name}" for name, _, _ in rule.states]
        if sorted(names) != sorted(arrays):
            raise ValueError(f"the state of {key!r} has {', '.join(sorted(arrays))}, but "
                             f"{rule.name} needs {', '.join(names) or 'none'}; it was saved by "
                             "another optimizer")
        for name, each in arrays.items():
            if each.shape != weight.shape:
                raise ShapeError(f"state {name!r} has shape {each.shape}, but the parameter "
                                 f"has {weight.shape}")
        return {name: arrays[f"{key}.{name}"].astype(dtype or weight.dtype).to(weight.device)
                for name, dtype, _ in rule.states}

    def save(self, path):
        """Writes the state to a file of arrays: tn.save.

            tn.save("weights.safetensors", params)
            step.save("optimizer.safetensors")
        """
        from tenon import files
        files.save(path, self.state)

    def load(self, path):
        """Reads the state of a file that save() has written.

            step.load("optimizer.safetensors")
        """
        from tenon import files
        self.state = files.load_arrays(path)

    def __repr__(self):
        return (f"<Optimizer {self.name} of {len(self.params)} parameters, {self.steps} steps, "
                f"learning_rate={self.learning_rate:g}>")


# ------------------------------------------------------------- by reflection

def _make_constructor(name):
    """The function tn.optim.<name>, with the signature and the text of the operator."""
    rule = _find_rule(name, False, False)

    def construct(params, learning_rate, *, multi_precision=False, overrides=None, **settings):
        return Optimizer(name, params, learning_rate, multi_precision, overrides, **settings)

    given = inspect.signature(construct).parameters
    fields = [(_SHORT_NAMES.get(each.name, each.name), each.default)
              for each in inspect.signature(rule.function).parameters.values()
              if each.name in rule.params and each.name != "lr"]
    signature = [given["params"], given["learning_rate"]]
    signature += [inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=default)
                  for each, default in fields]
    signature += [given["multi_precision"], given["overrides"]]
    construct.__signature__ = inspect.Signature(signature)
    construct.__name__ = construct.__qualname__ = name
    construct.__module__ = __name__
    construct.__doc__ = (f"An Optimizer: {rule.function.__doc__}\n`learning_rate` is `lr` and "
                         "`weight_decay` is `wd` of the operator.")
    return construct


def __getattr__(name):
    if name.startswith("_"):
        raise AttributeError(name)
    try:
        made = _make_constructor(name)
    except LookupError as error:
        raise AttributeError(str(error)) from None
    globals()[name] = made
    return made


def __dir__():
    return ["Optimizer", "list_optimizers", *list_optimizers()]
