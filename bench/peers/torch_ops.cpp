/* SPDX-License-Identifier: Apache-2.0
 * The rows of ops.h by libtorch, with one thread. Prints the same lines as
 * ops.c.
 *
 *   torch_ops [-- PART ...]
 */
#include <ATen/Parallel.h>

#include <cstdio>
#include <cstring>
#include <map>

#include "torch_layers.h"

namespace {

constexpr double seconds = 0.2; /* of each figure */

Once convolution(const Row &r, uint32_t grads) {
  const int64_t *n = r.c->n;
  const std::vector<int64_t> stride{n[0], n[0]}, pad{n[1], n[1]}, one{1, 1};
  const at::Tensor x = r.in[0], w = r.in[1];
  const int64_t groups = n[2];
  if (grads == 0)
    return [=] {
      at::convolution(x, w, {}, stride, pad, one, false, {0, 0}, groups);
    };
  const at::Tensor head = at::rand_like(
      at::convolution(x, w, {}, stride, pad, one, false, {0, 0}, groups));
  const std::array<bool, 3> wanted{(grads & 1) != 0, (grads & 2) != 0, false};
  return [=] {
    at::convolution_backward(head, x, w, c10::nullopt, stride, pad, one, false,
                             {0, 0}, groups, wanted);
  };
}

Once max_pool(const Row &r, uint32_t grads) {
  const int64_t *n = r.c->n;
  const std::vector<int64_t> w{n[0], n[0]}, s{n[1], n[1]}, p{n[2], n[2]},
      one{1, 1};
  const at::Tensor x = r.in[0];
  if (grads == 0)
    return [=] { at::max_pool2d_with_indices(x, w, s, p, one, false); };
  const auto out = at::max_pool2d_with_indices(x, w, s, p, one, false);
  const at::Tensor head = at::rand_like(std::get<0>(out));
  const at::Tensor places = std::get<1>(out);
  return [=] {
    at::max_pool2d_with_indices_backward(head, x, w, s, p, one, false, places);
  };
}

Once avg_pool(const Row &r, uint32_t grads) {
  const int64_t *n = r.c->n;
  const std::vector<int64_t> w{n[0], n[0]}, s{n[1], n[1]}, p{n[2], n[2]};
  const at::Tensor x = r.in[0];
  if (grads == 0) return [=] { at::avg_pool2d(x, w, s, p); };
  const at::Tensor head = at::rand_like(at::avg_pool2d(x, w, s, p));
  return [=] {
    at::avg_pool2d_backward(head, x, w, s, p, false, true, c10::nullopt);
  };
}

/* Of stride n[0] and padding n[1]. */
Once deconvolution(const Row &r, uint32_t grads) {
  const int64_t *n = r.c->n;
  const std::vector<int64_t> stride{n[0], n[0]}, pad{n[1], n[1]}, one{1, 1};
  const at::Tensor x = r.in[0], w = r.in[1];
  if (grads == 0)
    return [=] {
      at::convolution(x, w, {}, stride, pad, one, true, {0, 0}, 1);
    };
  const at::Tensor head = at::rand_like(
      at::convolution(x, w, {}, stride, pad, one, true, {0, 0}, 1));
  const std::array<bool, 3> wanted{(grads & 1) != 0, (grads & 2) != 0, false};
  return [=] {
    at::convolution_backward(head, x, w, c10::nullopt, stride, pad, one, true,
                             {0, 0}, 1, wanted);
  };
}

/* Windows of width n[0], step n[1] and padding n[2] as columns. */
Once unfold(const Row &r, uint32_t grads) {
  const int64_t *n = r.c->n;
  const std::vector<int64_t> w{n[0], n[0]}, s{n[1], n[1]}, p{n[2], n[2]},
      one{1, 1}, size{r.in[0].size(2), r.in[0].size(3)};
  const at::Tensor x = r.in[0];
  if (grads == 0) return [=] { at::im2col(x, w, one, p, s); };
  const at::Tensor head = at::rand_like(at::im2col(x, w, one, p, s));
  return [=] { at::col2im(head, size, w, one, p, s); };
}

/* Images of n[0] x n[0] elements: nearest if n[1] is 0, otherwise linear. */
Once resize(const Row &r, uint32_t grads) {
  const int64_t *n = r.c->n;
  const std::vector<int64_t> size{n[0], n[0]};
  const std::vector<int64_t> from = r.in[0].sizes().vec();
  const bool is_linear = n[1] != 0;
  const at::Tensor x = r.in[0];
  if (grads == 0)
    return [=] {
      if (is_linear)
        at::upsample_bilinear2d(x, size, false);
      else
        at::upsample_nearest2d(x, size);
    };
  const at::Tensor head = at::rand_like(at::upsample_nearest2d(x, size));
  return [=] {
    if (is_linear)
      at::upsample_bilinear2d_backward(head, size, from, false);
    else
      at::upsample_nearest2d_backward(head, size, from);
  };
}

Once grid_sample(const Row &r, uint32_t grads) {
  const at::Tensor x = r.in[0], grid = r.in[1];
  if (grads == 0) return [=] { at::grid_sampler_2d(x, grid, 0, 0, false); };
  const at::Tensor head =
      at::rand_like(at::grid_sampler_2d(x, grid, 0, 0, false));
  return [=] {
    at::grid_sampler_2d_backward(head, x, grid, 0, 0, false, {true, true});
  };
}

/* A deformable convolution of window n[0] and padding n[1], which libtorch
 * lacks: samples by grid_sampler, and a product. */
Once deformable(const Row &r, uint32_t grads) {
  const int64_t k = r.c->n[0], pad = r.c->n[1];
  const at::Tensor x = r.in[0], offset = r.in[2];
  const at::Tensor w = r.in[1].reshape({r.in[1].size(0), -1});
  const int64_t n = x.size(0), c = x.size(1), h = x.size(2), l = x.size(3);
  at::Tensor at = at::empty({1, k * k, 2, h, l});
  for (int64_t t = 0; t < k * k; ++t) {
    at[0][t][0] = (at::arange(h) + (t / k - pad)).reshape({h, 1});
    at[0][t][1] = at::arange(l) + (t % k - pad);
  }
  const auto grid = [=] {
    const at::Tensor p = offset.reshape({n, k * k, 2, h, l}) + at;
    return at::stack({p.select(2, 1) * (2.0 / (l - 1)) - 1,
                      p.select(2, 0) * (2.0 / (h - 1)) - 1},
                     -1)
        .reshape({n, k * k * h, l, 2});
  };
  const auto columns = [=](const at::Tensor &g) {
    return at::grid_sampler_2d(x, g, 0, 0, true).reshape({n, c * k * k, h * l});
  };
  if (grads == 0) return [=] { at::matmul(w, columns(grid())); };
  const at::Tensor head = at::rand({n, w.size(0), h * l});
  return [=] {
    const at::Tensor g = grid();
    at::matmul(head, columns(g).transpose(1, 2)).sum(0);
    const at::Tensor slope = at::matmul(w.t(), head);
    at::grid_sampler_2d_backward(slope.reshape({n, c, k * k * h, l}), x, g, 0,
                                 0, true, {true, true});
  };
}

Once softmax(const Row &r, uint32_t grads) {
  const at::Tensor x = r.in[0];
  if (grads == 0) return [=] { at::_softmax(x, 1, false); };
  const at::Tensor out = at::_softmax(x, 1, false), head = at::rand_like(out);
  return [=] { at::_softmax_backward_data(head, out, 1, at::kFloat); };
}

Once log_softmax(const Row &r, uint32_t grads) {
  const at::Tensor x = r.in[0];
  if (grads == 0) return [=] { at::_log_softmax(x, 1, false); };
  const at::Tensor out = at::_log_softmax(x, 1, false),
                   head = at::rand_like(out);
  return [=] { at::_log_softmax_backward_data(head, out, 1, at::kFloat); };
}

Once batch_norm(const Row &r, uint32_t grads) {
  const at::Tensor x = r.in[0], w = r.in[1], b = r.in[2], mean = r.in[3],
                   var = r.in[4];
  const auto once = [=] {
    return at::native_batch_norm(x, w, b, mean, var, true, 0.1, 1e-3);
  };
  if (grads == 0) return [=] { once(); };
  const auto out = once();
  const at::Tensor head = at::rand_like(x);
  return [=] {
    at::native_batch_norm_backward(head, x, w, mean, var, std::get<1>(out),
                                   std::get<2>(out), true, 1e-3,
                                   {true, true, true});
  };
}

Once layer_norm(const Row &r, uint32_t grads) {
  const at::Tensor x = r.in[0], w = r.in[1], b = r.in[2];
  const std::vector<int64_t> shape{x.size(1)};
  if (grads == 0) return [=] { at::native_layer_norm(x, shape, w, b, 1e-5); };
  const auto out = at::native_layer_norm(x, shape, w, b, 1e-5);
  const at::Tensor head = at::rand_like(x);
  return [=] {
    at::native_layer_norm_backward(head, x, shape, std::get<1>(out),
                                   std::get<2>(out), w, b, {true, true, true});
  };
}

Once dropout(const Row &r, uint32_t grads) {
  const at::Tensor x = r.in[0];
  if (grads == 0) return [=] { at::native_dropout(x, 0.5, true); };
  const at::Tensor mask = at::rand_like(x) > 0.5, head = at::rand_like(x);
  return [=] { at::native_dropout_backward(head, mask, 2); };
}

/* The loss, and the gradient as its two functions compute it. */
Once cross_entropy(const Row &r, uint32_t grads) {
  const at::Tensor x = r.in[0], label = r.in[1];
  if (grads == 0)
    return [=] { at::cross_entropy_loss(x, label, {}, at::Reduction::Sum); };
  const at::Tensor logs = at::log_softmax(x, 1), one = at::ones({}),
                   weight = at::zeros({});
  return [=] {
    at::_log_softmax_backward_data(
        at::nll_loss_backward(one, logs, label, {}, at::Reduction::Sum, -100,
                              weight),
        logs, 1, at::kFloat);
  };
}

Once embedding(const Row &r, uint32_t grads) {
  const at::Tensor rows = r.in[0], w = r.in[1];
  if (grads == 0) return [=] { at::embedding(w, rows); };
  const at::Tensor head = at::rand({rows.size(0), w.size(1)});
  return
      [=] { at::embedding_dense_backward(head, rows, w.size(0), -1, false); };
}

/* Reductions along axis n[0]. */
Once sum(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  const int64_t axis = r.c->n[0];
  return [=] { at::sum(x, {axis}); };
}

Once amax(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  const int64_t axis = r.c->n[0];
  return [=] { at::amax(x, {axis}); };
}

Once argmax(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  const int64_t axis = r.c->n[0];
  return [=] { at::argmax(x, axis); };
}

Once sort(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  return [=] { at::sort(x, /*stable=*/true, -1, false); };
}

Once cumsum(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  const int64_t axis = r.c->n[0];
  return [=] { at::cumsum(x, axis); };
}

Once logsumexp(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  const int64_t axis = r.c->n[0];
  return [=] { at::logsumexp(x, {axis}); };
}

Once topk(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  const int64_t k = r.c->n[0];
  return [=] { at::topk(x, k); };
}

Once matmul(const Row &r, uint32_t) {
  const at::Tensor a = r.in[0], b = r.in[1];
  return [=] { at::matmul(a, b); };
}

Once einsum_scores(const Row &r, uint32_t) {
  const std::vector<at::Tensor> in = r.in;
  return [=] { at::einsum("bhqd,bhkd->bhqk", in); };
}

Once einsum_turned(const Row &r, uint32_t) {
  const std::vector<at::Tensor> in = r.in;
  return [=] { at::einsum("bji,jbk->kbi", in).contiguous(); };
}

/* Of pairs, along axis n[0]. */
Once dft(const Row &r, uint32_t) {
  const at::Tensor x = at::view_as_complex(r.in[0]);
  const int64_t axis = r.c->n[0];
  return [=] { at::fft_fft(x, c10::nullopt, axis); };
}

Once inverse(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  return [=] { at::linalg_inv(x); };
}

Once det(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  return [=] { at::linalg_det(x); };
}

Once qr(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  return [=] { at::linalg_qr(x); };
}

Once svd(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  return [=] { at::linalg_svd(x, false); };
}

Once syevd(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  return [=] { at::linalg_eigh(x); };
}

Once solve(const Row &r, uint32_t) {
  const at::Tensor a = r.in[0], b = r.in[1];
  return [=] { at::linalg_solve(a, b); };
}

/* Into memory that is there, as ours. */
Once transpose(const Row &r, uint32_t) {
  const at::Tensor from = r.in[0].transpose(r.c->n[0], r.c->n[1]);
  const at::Tensor to = from.contiguous();
  return [=] { to.copy_(from); };
}

/* An older libtorch has no f8, and then no such row. */
#if __has_include(<c10/util/Float8_e4m3fn.h>)
Once cast_f8(const Row &r, uint32_t) {
  const at::Tensor from = r.in[0];
  const at::Tensor to = from.to(at::kFloat8_e4m3fn);
  return [=] { to.copy_(from); };
}
#else
const auto cast_f8 = nullptr;
#endif

/* Integers by a scale for each block: of i8, as libtorch has no i4. */
Once scale_i8(const Row &r, uint32_t) {
  const int64_t rows = r.in[0].size(0), blocks = r.in[1].size(1);
  const at::Tensor from =
      (r.in[0] * 8).to(at::kChar).reshape({rows, blocks, -1});
  const at::Tensor scale = r.in[1].unsqueeze(2);
  at::Tensor to = at::mul(from, scale);
  return [=]() mutable { at::mul_out(to, from, scale); };
}

Once channels_last(const Row &r, uint32_t) {
  const at::Tensor from = r.in[0].permute({0, 2, 3, 1});
  const at::Tensor to = from.contiguous();
  return [=] { to.copy_(from); };
}

Once concat(const Row &r, uint32_t) {
  const std::vector<at::Tensor> in = r.in;
  const int64_t dim = r.c->n[0];
  at::Tensor to = at::cat(in, dim);
  return [=]() mutable { at::cat_out(to, in, dim); };
}

/* By n[0] and n[1] places along the first two axes. */
Once roll(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0];
  const std::vector<int64_t> by{r.c->n[0], r.c->n[1]}, axes{0, 1};
  return [=] { at::roll(x, by, axes); };
}

Once scatter_add(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0], index = r.in[1], updates = r.in[2];
  return [=] { at::scatter_add(x, 0, index, updates); };
}

Once index_add(const Row &r, uint32_t) {
  const at::Tensor x = r.in[0], rows = r.in[1].reshape({-1}), add = r.in[2];
  return [=] { at::index_add(x, 0, rows, add); };
}

/* Elements of a matrix; its gradient adds to zeros. */
Once index_pairs(const Row &r, uint32_t grads) {
  const at::Tensor x = r.in[0];
  const at::Tensor row = r.in[1].select(0, 0), column = r.in[1].select(0, 1);
  if (grads == 0) return [=] { at::index(x, {row, column}); };
  const at::Tensor head = at::rand_like(at::index(x, {row, column}));
  return [=] { at::index_put(at::zeros_like(x), {row, column}, head, true); };
}

Once uniform(const Row &r, uint32_t) {
  const at::Tensor to = at::empty({r.c->n[0]});
  return [=] { to.uniform_(); };
}

Once gamma(const Row &r, uint32_t) {
  const at::Tensor alpha = at::full({r.c->n[0]}, 2.5);
  return [=] { at::_standard_gamma(alpha); };
}

Once poisson(const Row &r, uint32_t) {
  const at::Tensor lam = at::full({r.c->n[0]}, 20.0);
  return [=] { at::poisson(lam); };
}

Once normal(const Row &r, uint32_t) {
  const at::Tensor to = at::empty({r.c->n[0]});
  return [=] { to.normal_(); };
}

/* The steps of torch.optim.Adam; n: the number of the step. */
Once adam(const Row &r, uint32_t) {
  const at::Tensor w = r.in[0], g = r.in[1], mean = r.in[2], var = r.in[3];
  const double lost1 = 1 - std::pow(0.9, static_cast<double>(r.c->n[0]));
  const double lost2 = 1 - std::pow(0.999, static_cast<double>(r.c->n[0]));
  return [=] {
    mean.mul_(0.9).add_(g, 0.1);
    var.mul_(0.999).addcmul_(g, g, 0.001);
    const at::Tensor root = var.sqrt().div_(std::sqrt(lost2)).add_(1e-8);
    w.addcdiv_(mean, root, -0.001 / lost1);
  };
}

const std::map<std::string, Make> makers = {
    {"lstm", lstm},
    {"gru", gru},
    {"attention", attention},
    {"rotary", rotary},
    {"convolution", convolution},
    {"max_pool", max_pool},
    {"avg_pool", avg_pool},
    {"deconvolution", deconvolution},
    {"deformable", deformable},
    {"unfold", unfold},
    {"resize", resize},
    {"grid_sample", grid_sample},
    {"softmax", softmax},
    {"log_softmax", log_softmax},
    {"batch_norm", batch_norm},
    {"layer_norm", layer_norm},
    {"dropout", dropout},
    {"cross_entropy", cross_entropy},
    {"embedding", embedding},
    {"sum", sum},
    {"amax", amax},
    {"argmax", argmax},
    {"sort", sort},
    {"topk", topk},
    {"cumsum", cumsum},
    {"logsumexp", logsumexp},
    {"matmul", matmul},
    {"einsum_scores", einsum_scores},
    {"einsum_turned", einsum_turned},
    {"dft", dft},
    {"transpose", transpose},
    {"channels_last", channels_last},
    {"concat", concat},
    {"roll", roll},
    {"cast_f8", cast_f8},
    {"scale_i8", scale_i8},
    {"scatter_add", scatter_add},
    {"index_add", index_add},
    {"index_pairs", index_pairs},
    {"uniform", uniform},
    {"normal", normal},
    {"gamma", gamma},
    {"poisson", poisson},
    {"adam", adam},
    {"rms_norm", rms_norm},
    {"group_norm", group_norm},
    {"instance_norm", instance_norm},
    {"l2_norm", l2_norm},
    {"lrn", lrn},
    {"logistic", logistic},
    {"ctc", ctc},
    {"flip", flip},
    {"inverse", inverse},
    {"det", det},
    {"qr", qr},
    {"svd", svd},
    {"syevd", syevd},
    {"solve", solve},
};

void run_row(const ops_case &c) {
  const auto maker = makers.find(c.torch);
  const ops_extra extra = ops_extra_of(&c);
  Row r{&c, {}};
  if (maker == makers.end()) measure_fail("there is no `%s`", c.torch);
  if (!maker->second) return;
  for (const ops_shape &shape : c.in) {
    const at::IntArrayRef dims(shape.dims, static_cast<size_t>(shape.ndim));
    if (shape.ndim == 0) continue;
    if (extra.index_limit > 0 && r.in.size() == extra.index_at)
      r.in.push_back(at::randint(extra.index_limit, dims, at::kLong));
    else
      r.in.push_back(at::rand(dims) * 2 - 1);
  }
  for (const ops_pass &pass : c.pass) {
    if (pass.name == nullptr) continue;
    Once once = maker->second(r, pass.grads);
    const double ns = measure_cpu(
        [](void *arg) { (*static_cast<Once *>(arg))(); }, &once, seconds);
    std::printf("%s/%s %.2f\n", pass.name, c.name, ns / 1e3);
    std::fflush(stdout);
  }
}

bool is_wanted(const ops_case &c, int n, char **parts) {
  for (int i = 0; i < n; ++i)
    if (std::strstr(c.name, parts[i]) != nullptr) return true;
  return n == 0;
}

}  // namespace

int main(int argc, char **argv) {
  at::set_num_threads(1);
  const int skipped = argc > 1 ? 2 : 1;
  for (const ops_case &c : ops_cases)
    if (is_wanted(c, argc - skipped, argv + skipped)) run_row(c);
  return 0;
}
