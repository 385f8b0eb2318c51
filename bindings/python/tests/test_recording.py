# SPDX-License-Identifier: Apache-2.0
"""The blocks record() and pause()."""

import pytest

import tenon as tn


def test_blocks_restore_the_recording():
    assert not tn.is_recording()
    with tn.record() as outer:
        with tn.record() as inner:
            assert inner is not outer and tn._core.get_recording() is inner
        assert tn._core.get_recording() is outer
        with tn.pause():
            assert not tn.is_recording()
        with pytest.raises(KeyError):
            with tn.pause():
                raise KeyError
        assert tn._core.get_recording() is outer
    assert not tn.is_recording()


def test_paused_calls_are_constants():
    x = tn.array([2.0, 3.0]).attach_grad()
    with tn.record():
        y = x * x
        with tn.pause():
            z = x * 5
        w = (y * z).sum()
    w.backward()
    assert x.grad.tolist() == [2 * 2 * 10, 2 * 3 * 15]
