/* SPDX-License-Identifier: Apache-2.0
 * torch_layers.h: layers of networks for torch_ops.cpp: norms, losses,
 * attention, recurrent layers.
 */
#ifndef BENCH_PEERS_TORCH_LAYERS_H_
#define BENCH_PEERS_TORCH_LAYERS_H_

#include "torch_row.h"

namespace {

/* As users of this release compose it, and its gradient by hand. */
Once rms_norm(const Row &r, uint32_t grads) {
  const at::Tensor x = r.in[0], w = r.in[1];
  if (grads == 0)
    return [=] { x *at::rsqrt((x * x).mean({1}, true) + 1e-5) * w; };
  const at::Tensor rstd = at::rsqrt((x * x).mean({1}, true) + 1e-5);
  const at::Tensor head = at::rand_like(x);
  return [=] {
    const at::Tensor a = head * w, normal = x * rstd;
    const at::Tensor by_x = (a - normal * (a * normal).mean({1}, true)) * rstd;
    const at::Tensor by_w = (head * normal).sum({0});
  };
}

/* n: the number of groups. */
Once group_norm(const Row &r, uint32_t grads) {
  const at::Tensor x = r.in[0], w = r.in[1], b = r.in[2];
  const int64_t groups = r.c->n[0], n = x.size(0), c = x.size(1);
  const int64_t area = x.numel() / (n * c);
  if (grads == 0)
    return [=] { at::native_group_norm(x, w, b, n, c, area, groups, 1e-5); };
  const auto out = at::native_group_norm(x, w, b, n, c, area, groups, 1e-5);
  const at::Tensor head = at::rand_like(x);
  return [=] {
    at::native_group_norm_backward(head, x, std::get<1>(out), std::get<2>(out),
                                   w, n, c, area, groups, {true, true, true});
  };
}

Once instance_norm(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0], w = r.in[1], b = r.in[2];
  return [=] { at::instance_norm(x, w, b, {}, {}, true, 0.1, 1e-3, false); };
}

/* Along axis n[0]. */
Once l2_norm(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  const int64_t axis = r.c->n[0];
  return [=] { x / at::norm(x, 2, {axis}, true).clamp_min(1e-12); };
}

/* As torch.nn.functional.local_response_norm; n: channels of a window. Its
 * gradient by hand, from the bases of the powers. */
Once lrn(const Row &r, uint32_t grads) {
  const at::Tensor x = r.in[0];
  const int64_t n = r.c->n[0];
  const auto sum_window = [=](const at::Tensor &from) {
    const at::Tensor padded =
        at::constant_pad_nd(from.unsqueeze(1), {0, 0, 0, 0, n / 2, n / 2}, 0);
    return at::avg_pool3d(padded, {n, 1, 1}, {1, 1, 1}).squeeze(1);
  };
  if (grads == 0) return [=] { x / (sum_window(x * x) * 1e-4 + 2).pow(0.75); };
  const at::Tensor base = sum_window(x * x) * 1e-4 + 2;
  const at::Tensor head = at::rand_like(x);
  return [=] {
    const at::Tensor power = base.pow(-0.75);
    head *power - 1.5e-4 * x *sum_window(head * x * power / base);
  };
}

Once logistic(const Row &r, uint32_t grads) {
  const at::Tensor x = r.in[0], label = r.in[1];
  if (grads == 0) return [=] { at::sigmoid(x); };
  const at::Tensor out = at::sigmoid(x);
  const double factor = 1.0 / static_cast<double>(x.size(1));
  return [=] { (out - label).mul_(factor); };
}

/* The last symbol is the blank, and all labels have the same length. */
Once ctc(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0], label = r.in[1];
  const std::vector<int64_t> steps(x.size(1), x.size(0));
  const std::vector<int64_t> places(x.size(1), label.size(1));
  const int64_t blank = x.size(2) - 1;
  return [=] {
    at::_ctc_loss(at::log_softmax(x, 2), label, steps, places, blank, false);
  };
}

/* Along axis n[0]. */
Once flip(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  const int64_t axis = r.c->n[0];
  return [=] { at::flip(x, {axis}); };
}

/* Forward as torch's own function. Backward as torch's fused function, or in a
 * torch that has none as the functions that autograd calls. n[0]: with a causal
 * mask. */
#if __has_include(<ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>)
Once attention(const Row &r, uint32_t grads) {
  const at::Tensor q = r.in[0], k = r.in[1], v = r.in[2];
  const bool causal = r.c->n[0] != 0;
  if (grads == 0)
    return [=] { at::scaled_dot_product_attention(q, k, v, {}, 0.0, causal); };
  const auto [out, sums] =
      at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal);
  const at::Tensor result = out, lines = sums, head = at::rand_like(q);
  return [=] {
    at::_scaled_dot_product_flash_attention_for_cpu_backward(
        head, q, k, v, result, lines, 0.0, causal);
  };
}
#else
Once attention(const Row &r, uint32_t grads) {
  const at::Tensor q = r.in[0], k = r.in[1], v = r.in[2];
  const bool causal = r.c->n[0] != 0;
  if (grads == 0)
    return [=] {
      at::_scaled_dot_product_attention(q, k, v, {}, 0.0, false, causal);
    };
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  at::Tensor score = at::matmul(q, k.transpose(2, 3)) * scale;
  if (causal)
    score = score + at::full({q.size(2), k.size(2)}, -INFINITY).triu(1);
  const at::Tensor weight = at::softmax(score, 3), head = at::rand_like(q);
  return [=] {
    const at::Tensor slope = at::_softmax_backward_data(
        at::matmul(head, v.transpose(2, 3)), weight, 3, at::kFloat);
    at::matmul(weight.transpose(2, 3), head);
    at::matmul(slope, k).mul_(scale);
    at::matmul(slope.transpose(2, 3), q).mul_(scale);
  };
}
#endif

/* As the models of transformers compute it. */
Once rotary(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0], cosine = at::cat({r.in[1], r.in[1]}, 1),
                   sine = at::cat({r.in[2], r.in[2]}, 1);
  return [=] {
    const int64_t half = x.size(3) / 2;
    const at::Tensor turned =
        at::cat({-x.slice(3, half), x.slice(3, 0, half)}, 3);
    x.mul(cosine).add_(turned.mul_(sine));
  };
}

/* The parts of a vector of parameters, as torch takes them; n[0]: gates. */
std::vector<at::Tensor> split_parameters(const Row &r) {
  const int64_t units = 128, n = r.c->n[0] * units, inputs = r.in[0].size(2);
  const std::vector<at::Tensor> parts =
      r.in[1].split_with_sizes({n * inputs, n * units, n, n});
  return {parts[0].view({n, inputs}), parts[1].view({n, units}), parts[2],
          parts[3]};
}

Once lstm(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0], zero = at::zeros({1, x.size(1), 128});
  const std::vector<at::Tensor> parameters = split_parameters(r);
  return [=] {
    at::lstm(x, {zero, zero}, parameters, true, 1, 0, false, false, false);
  };
}

Once gru(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0], zero = at::zeros({1, x.size(1), 128});
  const std::vector<at::Tensor> parameters = split_parameters(r);
  return [=] { at::gru(x, zero, parameters, true, 1, 0, false, false, false); };
}

}  // namespace

#endif /* BENCH_PEERS_TORCH_LAYERS_H_ */
