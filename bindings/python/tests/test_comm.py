# SPDX-License-Identifier: Apache-2.0
"""Groups of one process. Groups of several are tested in C and with mpirun."""

import pytest

import tenon as tn
from tenon import comm


def test_a_group_of_one_member():
    with comm.Group("alone", backend="local") as group:
        assert (group.name, group.rank, group.size) == ("alone", 0, 1)
        group.barrier()
        half = group.split(0, "alone_half")
        assert repr(half) == "<Group alone_half, rank 0 of 1>"
        assert group.split(-1, "alone_none") is None
        y = tn.ops.comm.all_reduce(tn.var("x"), group="alone")
        assert y.eval(x=[1.0, 2.0]).numpy().tolist() == [1, 2]
    with pytest.raises(ValueError, match="has left"):
        group.barrier()
    assert repr(group) == "<Group that this process has left>"


def test_wrong_groups():
    with pytest.raises(tn.TenonError, match="mpj"):
        comm.Group("wrong", backend="mpj")
    assert "local" in comm.describe_backends()
