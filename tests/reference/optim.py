#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/plugins/optim_cases.inc: values of the steps of plugins/optim for
test_optim.c.

    optim.py > optim_cases.inc

Each case makes three steps with gradients of its own. Adam and its correction are
those of torch.optim in double precision; the others follow the formulas of the
literature, written down here with NumPy: nothing knows of Tenon. The committed
file was made with NumPy 1.24.2 and torch 1.13.1, Python 3.11.
"""

import numpy as np
import torch

RANDOM = np.random.default_rng(17)
N, STEPS = 8, 3


def draw():
    """Numbers with few bits, exact in every type."""
    return RANDOM.integers(-16, 17, size=N) / 8


def show(values):
    return "{" + ", ".join(repr(float(each)) for each in values) + "}"


def case(op, params, rates, steps):
    """`steps` gives the new weight and the states after each step."""
    weight = draw()
    gradients = [draw() for _ in range(STEPS)]
    after, states = steps(weight.copy(), gradients, rates)
    print(f'{{"optim.{op}", "{params}", {len(states)}, {show(rates)},')
    print(f" {show(weight)},")
    print(" {" + ",\n  ".join(show(each) for each in gradients) + "},")
    print(f" {show(after)},")
    print(" {" + ",\n  ".join(show(each) for each in states) + "}},")


def adam_torch(beta1, beta2, epsilon, decay):
    def steps(weight, gradients, rates):
        w = torch.tensor(weight, requires_grad=True)
        optimizer = torch.optim.Adam([w], lr=1, betas=(beta1, beta2),
                                     eps=epsilon, weight_decay=decay)
        for gradient, rate in zip(gradients, rates):
            optimizer.param_groups[0]["lr"] = rate
            w.grad = torch.tensor(gradient)
            optimizer.step()
        state = optimizer.state[w]
        return w.detach().numpy(), [state["exp_avg"].numpy(),
                                    state["exp_avg_sq"].numpy()]
    return steps


def clipped(values, limit):
    return values if limit < 0 else np.clip(values, -limit, limit)


def adam(beta1, beta2, epsilon, decay, rescale, limit):
    def steps(w, gradients, rates):
        mean, var = np.zeros(N), np.zeros(N)
        for gradient, rate in zip(gradients, rates):
            g = clipped(rescale * gradient + decay * w, limit)
            mean = beta1 * mean + (1 - beta1) * g
            var = beta2 * var + (1 - beta2) * g ** 2
            w = w - rate * mean / (np.sqrt(var) + epsilon)
        return w, [mean, var]
    return steps


def rmsprop(gamma1, epsilon, decay, rescale, limit, most):
    def steps(w, gradients, rates):
        n = np.zeros(N)
        for gradient, rate in zip(gradients, rates):
            g = clipped(rescale * gradient + decay * w, limit)
            n = gamma1 * n + (1 - gamma1) * g ** 2
            w = clipped(w - rate * g / np.sqrt(n + epsilon), most)
        return w, [n]
    return steps


def rmspropalex(gamma1, gamma2, epsilon, decay, rescale, limit, most):
    def steps(w, gradients, rates):
        n, mean, delta = np.zeros(N), np.zeros(N), np.zeros(N)
        for gradient, rate in zip(gradients, rates):
            g = clipped(rescale * gradient + decay * w, limit)
            n = gamma1 * n + (1 - gamma1) * g ** 2
            mean = gamma1 * mean + (1 - gamma1) * g
            delta = gamma2 * delta - rate * g / np.sqrt(n - mean ** 2 + epsilon)
            w = clipped(w + delta, most)
        return w, [n, mean, delta]
    return steps


def ftrl(lamda1, beta, decay, rescale, limit):
    def steps(w, gradients, rates):
        z, n = np.zeros(N), np.zeros(N)
        for gradient, rate in zip(gradients, rates):
            g = clipped(rescale * gradient, limit)
            z = z + g - (np.sqrt(n + g ** 2) - np.sqrt(n)) * w / rate
            n = n + g ** 2
            w = np.where(np.abs(z) > lamda1, (np.sign(z) * lamda1 - z)
                         / ((beta + np.sqrt(n)) / rate + decay), 0)
        return w, [z, n]
    return steps


def momentum(keep, decay, rescale, limit):
    def steps(w, gradients, rates):
        mom = np.zeros(N)
        for gradient, rate in zip(gradients, rates):
            g = clipped(rescale * gradient, limit)
            mom = keep * mom - rate * decay * w - rate * g
            w = w + mom
        return w, [mom]
    return steps


def kept_in_f32(steps):
    """A weight with a copy of more digits, which is the last state."""
    def of_both(w, gradients, rates):
        w, states = steps(w, gradients, rates)
        return w, states + [w]
    return of_both


def descent(decay, rescale, limit):
    def steps(w, gradients, rates):
        for gradient, rate in zip(gradients, rates):
            w = (1 - rate * decay) * w - rate * clipped(rescale * gradient, limit)
        return w, []
    return steps


print("/* Written by tests/reference/optim.py. */")
RATES = [0.5, 0.25, 0.125]
case("adam_update", "epsilon=1e-6 step=1", RATES,
     adam_torch(0.9, 0.999, 1e-6, 0))
case("adam_update", "beta1=0.5 beta2=0.75 epsilon=0.125 wd=0.25 step=1", RATES,
     adam_torch(0.5, 0.75, 0.125, 0.25))
case("adam_update", "epsilon=0.001", RATES, adam(0.9, 0.999, 1e-3, 0, 1, -1))
case("adam_update", "beta1=0.75 epsilon=0.5 wd=0.125 rescale_grad=2 "
     "clip_gradient=1.5", RATES, adam(0.75, 0.999, 0.5, 0.125, 2, 1.5))
case("rmsprop_update", "epsilon=0.001", RATES, rmsprop(0.95, 1e-3, 0, 1, -1, -1))
case("rmsprop_update", "gamma1=0.5 epsilon=0.5 wd=0.125 rescale_grad=2 "
     "clip_gradient=1.5 clip_weights=1", RATES,
     rmsprop(0.5, 0.5, 0.125, 2, 1.5, 1))
case("ftrl_update", "", RATES, ftrl(0.01, 1, 0, 1, -1))
case("ftrl_update", "lamda1=1 beta=2 wd=0.25 rescale_grad=2 clip_gradient=1.5",
     RATES, ftrl(1, 2, 0.25, 2, 1.5))
case("sgd_mom_update", "momentum=0.5 wd=0.125 rescale_grad=2 clip_gradient=1.5",
     RATES, momentum(0.5, 0.125, 2, 1.5))
case("rmspropalex_update", "epsilon=0.001", RATES,
     rmspropalex(0.95, 0.9, 1e-3, 0, 1, -1, -1))
case("rmspropalex_update", "gamma1=0.5 gamma2=0.25 epsilon=0.5 wd=0.125 "
     "rescale_grad=2 clip_gradient=1.5 clip_weights=1", RATES,
     rmspropalex(0.5, 0.25, 0.5, 0.125, 2, 1.5, 1))
case("mp_sgd_update", "", RATES, kept_in_f32(descent(0, 1, -1)))
case("mp_sgd_update", "wd=0.125 rescale_grad=2 clip_gradient=1.5", RATES,
     kept_in_f32(descent(0.125, 2, 1.5)))
case("mp_sgd_mom_update", "momentum=0.5 wd=0.125 rescale_grad=2 "
     "clip_gradient=1.5", RATES, kept_in_f32(momentum(0.5, 0.125, 2, 1.5)))
