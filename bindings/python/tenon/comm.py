# SPDX-License-Identifier: Apache-2.0
"""Groups of processes that compute together, for the operators of plugin `comm`.

    world = tn.comm.Group()    # under mpirun: all processes
    total = tn.ops.comm.all_reduce(gradient)
"""

from __future__ import annotations

import ctypes

from tenon import _api, _core
from tenon._binding import encode
from tenon._objects import Handle, make


class Group:
    """A group that this process is a member of; waits for all other members.

    `backend` is "mpi" for the processes that mpirun started, "local" for the members of one
    process; by default the one that fits. With `check`, members compare their calls, and a
    difference is an error. A call fails after `timeout` seconds.

        with tn.comm.Group(timeout=30) as world:
            print(world.rank, world.size)
    """

    def __init__(self, name=None, backend=None, check=False, timeout=0, rank=0, size=0,
                 session=None):
        options = _api.tn_group_options(
            check=bool(check), timeout_ms=int(timeout * 1000), rank=rank, size=size, name=name,
            backend=backend, session=session)
        self._adopt(make("tn_group_join", _core.runtime_handle(), options))

    def _adopt(self, address):
        self._handle = Handle(address, "tn_group_release")

    def _do(self, function, *arguments):
        if self._handle is None:
            raise ValueError("this process has left the group")
        return getattr(_api, function)(self._handle.address, *arguments)

    @property
    def name(self) -> str:
        """The name, which operators use: `group="world"`."""
        return self._do("tn_group_name")

    @property
    def rank(self) -> int:
        """Number of this member, from 0 on."""
        return self._do("tn_group_rank")

    @property
    def size(self) -> int:
        """Number of members."""
        return self._do("tn_group_size")

    def barrier(self) -> None:
        """Waits until all members have called it."""
        self._do("tn_group_barrier")

    def split(self, colour: int, name: str, key: int = 0) -> Group | None:
        """Divides the group: members with the same `colour` form a new one, in the order of `key`.
        None for a colour below 0.

            half = world.split(world.rank % 2, "half")
        """
        out = ctypes.c_void_p()
        self._do("tn_group_split", colour, key, encode(name), ctypes.byref(out))
        if out.value is None:
            return None
        made = Group.__new__(Group)
        made._adopt(out.value)
        return made

    def leave(self) -> None:
        """Leaves the group. Calls that have not ended fail."""
        self._handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()

    def __repr__(self):
        if self._handle is None:
            return "<Group that this process has left>"
        return f"<Group {self.name}, rank {self.rank} of {self.size}>"


def describe_backends() -> dict[str, str]:
    """A dict from backends to their release, or to the reason why they cannot start here."""
    length = ctypes.c_size_t()
    text = ctypes.create_string_buffer(1 << 16)
    _api.tn_comm_describe(_core.runtime_handle(), text, len(text), ctypes.byref(length))
    lines = text.value.decode().splitlines()
    return {name.strip(): rest.strip() for name, _, rest in
            (line.partition(":") for line in lines)}
