/* SPDX-License-Identifier: Apache-2.0
 * A host in C++: calls by name, gradients by a tape, a graph as a program, and
 * a failure as an exception.
 */
#include <cstdint>
#include <iostream>
#include <tenon/tenon.hpp>

using tenon::array;

static void print(const char *name, const array &x) {
  std::cout << name << ':';
  for (float v : x.values<float>()) std::cout << ' ' << v;
  std::cout << '\n';
}

static void call_operators(tenon::runtime &rt) {
  auto x = array::of<float>(rt, {2, 2}, {1, 2, 3, 4});
  auto y =
      rt.call("elemwise.quadratic", {x}, {{"a", 1.0}, {"b", 2.0}, {"c", 3.0}});
  print("x^2+2x+3", y);
  print("its second row", y.index(0, 1));
  auto total = rt.call("tensor.sum", {y}, {{"axis", {0, 1}}});
  print("sum", total);
}

static void differentiate(tenon::runtime &rt) {
  auto w = array::of<float>(rt, {3}, {1, 2, 3});
  auto x = array::of<float>(rt, {3}, {4, 5, 6});
  tenon::tape tape(rt);
  tape.watch(w);
  auto square = tape.call("elemwise.mul", {w, w});
  auto y = tape.call("elemwise.mul", {square, x});
  auto gradients = tape.gradient({y}, {w});
  print("d(w^2 x)/dw", gradients[0]);
}

static void run_graph(tenon::runtime &rt) {
  auto x = array::of<float>(rt, {3}, {1, 2, 3});
  auto w = array::of<float>(rt, {3}, {-2, 2, 2});
  auto ones = array::of<float>(rt, {3}, {1, 1, 1});
  tenon::graph net(rt);
  auto product =
      net.call("elemwise.mul", {net.variable("x"), net.variable("w")});
  net.set_heads({net.call("elemwise.relu", {product}, {}, "y")});
  tenon::program program(net, {{"x", x}, {"w", w}}, TN_REQ_WRITE);
  program.forward(TN_CALL_TRAIN);
  program.backward({ones});
  print("relu(x w)", program.output());
  print("its gradient", program.gradient("w"));
}

static void fail(tenon::runtime &rt) {
  auto x = array::of<std::int32_t>(rt, {2}, {1, 2});
  try {
    rt.call("elemwise.quadratic", {x}, {{"scale", 2.0}});
  } catch (const tenon::error &error) {
    std::cout << tn_code_name(error.code()) << '\n';
  }
}

int main() try {
  tenon::runtime rt;
  rt.load_standard();
  call_operators(rt);
  differentiate(rt);
  run_graph(rt);
  fail(rt);
  return 0;
} catch (const std::exception &error) {
  std::cerr << error.what() << '\n';
  return 1;
}
