# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each code of the library.

Each is a TenonError and also the nearest class of Python, so `except ValueError` and
`except tn.ShapeError` both work:

    try:
        tn.array([1.0, 2.0]) + tn.array([1.0, 2.0, 3.0])
    except tn.ShapeError as error:
        print(error.operator, error)
"""

import re

_OPERATOR = re.compile(r"\b([A-Za-z_]\w*)\.([A-Za-z_]\w*)@\d+")
_NODE = re.compile(r"node `([^`]+)`")


class TenonError(RuntimeError):
    """A failure of the library; `code` is the number that C functions return.

        except tn.TenonError as error: print(error.code, error.operator)
    """

    code = 0
    place = None  # file and line of the call that computes the array, if the failure is found later

    @property
    def operator(self):
        """Full name of the operator that the text names, as `"nn.convolution@1"`, or None."""
        found = _OPERATOR.search(str(self))
        return found.group(0) if found else None

    @property
    def plugin(self):
        """Name of that operator's plugin, or None."""
        found = _OPERATOR.search(str(self))
        return found.group(1) if found else None

    @property
    def node(self):
        """Name of the node of a graph that the text names, or None."""
        found = _NODE.search(str(self))
        return found.group(1) if found else None


class InvalidError(TenonError, ValueError):
    """An argument is malformed or contradicts another."""
    code = -1


class NotFoundError(TenonError, LookupError):
    """There is no such file, plugin, operator, parameter or name."""
    code = -2


class ExistsError(TenonError, ValueError):
    """The name is in use."""
    code = -3


class OutOfMemoryError(TenonError, MemoryError):
    """A device or the host has no more memory."""
    code = -4


class OutOfRangeError(TenonError, IndexError):
    """A value is outside of its declared range."""
    code = -5


class ShapeError(TenonError, ValueError):
    """Shapes contradict each other."""
    code = -6


class DtypeError(TenonError, TypeError):
    """Element types contradict each other."""
    code = -7


class IncompleteError(TenonError, ValueError):
    """Too little is known to decide: a shape or an element type is missing."""
    code = -8


class UnsupportedError(TenonError, NotImplementedError):
    """The request is valid, but no kernel or version here supports it."""
    code = -9


class UnimplementedError(TenonError, NotImplementedError):
    """The function is declared, but its code is not written yet."""
    code = -10


class PluginError(TenonError):
    """The plugin file is unusable or misbehaves."""
    code = -11


class FileError(TenonError, OSError):
    """The operating system refused a file operation."""
    code = -12


class DeviceError(TenonError):
    """A device or its driver failed."""
    code = -13


class BusyError(TenonError, TimeoutError):
    """The object is still in use, or a time limit has passed."""
    code = -14


class InternalError(TenonError):
    """A defect of the library or of a plugin; please report it."""
    code = -15


CLASSES = {each.code: each for each in TenonError.__subclasses__()}


def make_error(code, text, place=None):
    """The exception of a code; `text` may be bytes or empty. `place` is the file and line of the
    call that computes the array whose failure is found now."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    kind = CLASSES.get(code, TenonError)
    begin, found, _ = text.partition("; create a runtime in the child")
    if found:  # Python has one runtime for a process
        text = (f"{begin}; start processes with multiprocessing's method 'spawn', or use tenon for "
                "the first time after the fork")
    text = text or f"the library failed with code {code} and gave no text"
    if place is not None:
        text += f"\n  the array is computed at {place[0]}:{place[1]}"
    error = kind(text)
    error.place = place
    if kind is TenonError:
        error.code = code
    return error
