/* SPDX-License-Identifier: Apache-2.0
 * tenon.hpp: each class, with results computed by hand. A failed check prints
 * its line and ends the program with 1.
 */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tenon/tenon.hpp>
#include <type_traits>
#include <vector>

#define CHECK(condition)                                                      \
  ((condition) ? void()                                                       \
               : (std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition), \
                  std::exit(1)))

using tenon::array;
using floats = std::vector<float>;

static_assert(!std::is_copy_constructible_v<array>);
static_assert(std::is_nothrow_move_constructible_v<array>);
static_assert(tenon::dtype_of<std::uint8_t>() == TN_U8);
static_assert(tenon::dtype_of<std::int64_t>() == TN_I64);
static_assert(tenon::dtype_of<double>() == TN_F64);
static_assert(tenon::dtype_of<bool>() == TN_BOOL);

template <class Function>
static tn_code code_of(Function run) {
  try {
    run();
  } catch (const tenon::error &error) {
    CHECK(std::string(error.what()) != "");
    return error.code();
  }
  return TN_OK;
}

static void arrays_have_views_and_owners(tenon::runtime &rt) {
  auto x = array::of<float>(rt, {2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(x.size() == 6 && x.dtype() == TN_F32);
  CHECK((x.shape() == tenon::dims{2, 3}));
  CHECK((x.slice(1, 0, 3, 2).values<float>() == floats{1, 3, 4, 6}));
  CHECK((x.index(0, -1).values<float>() == floats{4, 5, 6}));
  CHECK((x.transpose().values<float>() == floats{1, 4, 2, 5, 3, 6}));
  CHECK((x.reshape({3, -1}).shape() == tenon::dims{3, 2}));
  CHECK((x.index(0, 0).broadcast({2, 3}).values<float>() ==
         floats{1, 2, 3, 1, 2, 3}));
  CHECK((x.cast(TN_I32).values<std::int32_t>() ==
         std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}));
  CHECK(x.to(rt.place("cpu")).size() == 6);

  auto second = x.share();
  second.set(floats{6, 5, 4, 3, 2, 1});
  CHECK((x.values<float>() == floats{6, 5, 4, 3, 2, 1}));
  auto moved = std::move(second);
  CHECK(!second && moved);
  array copy(rt, {2, 3}, TN_F32);
  copy.copy_from(moved);
  CHECK(copy.values<float>()[0] == 6);
  copy.wait();
}

static void a_wrong_type_is_refused(tenon::runtime &rt) {
  auto x = array::of<float>(rt, {1}, {1});
  bool refused = false;
  try {
    x.values<double>();
  } catch (const std::invalid_argument &error) {
    refused = std::string(error.what()) ==
              "the array has elements of f32, not of f64; cast it";
  }
  CHECK(refused);
  CHECK(code_of([&] { x.set(floats{1, 2}); }) == TN_INVALID);
}

static void calls_pass_each_kind_of_parameter(tenon::runtime &rt) {
  auto x = array::of<float>(rt, {2, 2}, {1, 2, 3, 4});
  auto sums = rt.call("tensor.sum", {x},
                      {{"axis", tenon::dims{1}}, {"keepdims", true}});
  CHECK((sums.shape() == tenon::dims{2, 1}));
  CHECK((sums.values<float>() == floats{3, 7}));
  CHECK((rt.call("tensor.sum", {x}).values<float>() == floats{10}));
  auto places = array::of<std::int32_t>(rt, {2}, {-1, 2});
  auto taken = rt.call("tensor.take", {x, places}, {{"mode", "wrap"}});
  CHECK((taken.values<float>() == floats{3, 4, 1, 2}));
  /* An integer for a parameter of type float. */
  auto y = rt.call("elemwise.quadratic", {x}, {{"a", 1}, {"c", 0.5}});
  CHECK((y.values<float>() == floats{1.5f, 4.5f, 9.5f, 16.5f}));
}

static void calls_have_many_inputs_and_outputs(tenon::runtime &rt) {
  auto a = array::of<float>(rt, {1, 2}, {1, 2});
  auto b = array::of<float>(rt, {1, 2}, {3, 4});
  auto c = array::of<float>(rt, {1, 2}, {5, 6});
  auto all = rt.call("tensor.concat", {a, b, c}, {{"dim", 1}});
  CHECK((all.values<float>() == floats{1, 2, 3, 4, 5, 6}));
  auto parts = rt.call_all("tensor.split", {all}, {{"num_outputs", 3}});
  CHECK(parts.size() == 3);
  CHECK((parts[1].values<float>() == floats{3, 4}));
  CHECK((rt.call("tensor.concat", parts, {{"dim", 0}}).shape() ==
         tenon::dims{3, 2}));
}

/* 1*3 + 2*4. */
static void an_optional_input_may_be_absent(tenon::runtime &rt) {
  auto x = array::of<float>(rt, {1, 2}, {1, 2});
  auto weight = array::of<float>(rt, {1, 2}, {3, 4});
  auto y = rt.call("nn.fully_connected", {x, weight, nullptr},
                   {{"num_hidden", 1}, {"no_bias", true}});
  CHECK((y.values<float>() == floats{11}));
}

/* The mean of {1, 3} is 2 and the variance 1, so the averages of momentum 0.5
 * become 0.5*0 + 0.5*2 and 0.5*1 + 0.5*1. */
static void training_calls_change_states(tenon::runtime &rt) {
  auto x = array::of<float>(rt, {2, 1}, {1, 3});
  auto gamma = array::of<float>(rt, {1}, {1});
  auto beta = array::of<float>(rt, {1}, {10});
  auto mean = array::of<float>(rt, {1}, {0});
  auto variance = array::of<float>(rt, {1}, {1});
  auto y = rt.call("nn.batch_norm", {x, gamma, beta, mean, variance},
                   {{"momentum", 0.5}, {"eps", 0.0}}, true);
  CHECK((y.values<float>() == floats{9, 11}));
  CHECK(mean.values<float>()[0] == 1 && variance.values<float>()[0] == 1);
}

static void failures_are_exceptions(tenon::runtime &rt) {
  auto x = array::of<float>(rt, {2}, {1, 2});
  CHECK(code_of([&] { rt.call("elemwise.nothing", {x}); }) == TN_NOT_FOUND);
  CHECK(code_of([&] {
          rt.call("elemwise.quadratic", {x}, {{"z", 1}});
        }) == TN_NOT_FOUND);
  auto y = array::of<float>(rt, {3}, {1, 2, 3});
  CHECK(code_of([&] { rt.call("elemwise.add", {x, y}); }) == TN_SHAPE);
  CHECK(code_of([&] { rt.load("/nowhere/acme.so"); }) != TN_OK);
  CHECK(code_of([&] { x.reshape({5}); }) != TN_OK);
}

/* y = x^3: the gradient is 3x^2, its gradient 6x. */
static void tapes_differentiate_twice(tenon::runtime &rt) {
  auto x = array::of<double>(rt, {2}, {2, 3});
  tenon::tape tape(rt);
  tape.watch(x);
  auto square = tape.call("elemwise.mul", {x, x});
  auto cube = tape.call("elemwise.mul", {square, x});
  auto first = tape.gradient({cube}, {x}, TN_TAPE_RECORD);
  CHECK((first[0].values<double>() == std::vector<double>{12, 27}));
  auto second = tape.gradient(first, {x});
  CHECK((second[0].values<double>() == std::vector<double>{12, 18}));
}

static void graphs_are_saved_and_run(tenon::runtime &rt, const char *path) {
  tenon::graph net(rt);
  auto x = net.variable("x");
  auto y = net.call("elemwise.quadratic", {x}, {{"a", 0.5}, {"b", 0.1}}, "y");
  net.set_heads({y});
  CHECK(net.json().find("\"elemwise.quadratic@1\"") != std::string::npos);
  net.save(path);
  auto read = tenon::graph::load(rt, path);
  CHECK(read.json() == net.json());
  CHECK(read.find("y_output").get().index == 0);

  auto values = array::of<double>(rt, {2}, {2, 4});
  auto weights = array::of<double>(rt, {2}, {1, 10});
  tenon::program program(read, {{"x", values}}, TN_REQ_WRITE);
  program.forward(TN_CALL_TRAIN);
  program.backward({weights});
  auto found = program.output().values<double>();
  CHECK(std::abs(found[0] - 2.2) < 1e-15 && std::abs(found[1] - 8.4) < 1e-15);
  auto slope = program.gradient("x").values<double>();
  CHECK(std::abs(slope[0] - 2.1) < 1e-15 && std::abs(slope[1] - 41) < 1e-13);
  CHECK((program.argument("x").values<double>()[1] == 4));
  CHECK(code_of([&] { program.argument("z"); }) == TN_NOT_FOUND);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  tenon::runtime rt;
  rt.load_standard();
  rt.seed(1);
  arrays_have_views_and_owners(rt);
  a_wrong_type_is_refused(rt);
  calls_pass_each_kind_of_parameter(rt);
  calls_have_many_inputs_and_outputs(rt);
  an_optional_input_may_be_absent(rt);
  training_calls_change_states(rt);
  failures_are_exceptions(rt);
  tapes_differentiate_twice(rt);
  graphs_are_saved_and_run(rt, argv[1]);
  rt.wait();
  std::puts("every check holds");
  return 0;
}
