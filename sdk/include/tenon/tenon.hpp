/* SPDX-License-Identifier: Apache-2.0
 * tenon.hpp: the host API for C++17. Failures are exceptions, and objects
 * release themselves; everything else is as in tenon.h and graph.h, whose
 * functions can be used beside: `get()` returns the object of C. Header only.
 * Programs that use `graph` or `program` also link libtenon-graph.
 *
 *   #include <iostream>
 *   #include <tenon/tenon.hpp>
 *
 *   int main() {
 *     tenon::runtime rt;
 *     rt.load_standard();
 *     auto x = tenon::array::of<float>(rt, {2, 2}, {1, 2, 3, 4});
 *     auto y = rt.call("elemwise.quadratic", {x},
 *                      {{"a", 1.0}, {"b", 2.0}, {"c", 3.0}});
 *     for (float v : y.values<float>()) std::cout << v << '\n';
 *   }
 *
 * Objects are moved, not copied. `share()` of an array adds an owner. Methods
 * of one object have the thread tag of the function that they call.
 */
#ifndef TENON_TENON_HPP_
#define TENON_TENON_HPP_

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "tenon.hpp needs C++17: compile with -std=c++17, or include tenon.h"
#endif

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "tenon/graph.h"

namespace tenon {

/* ------------------------------------------------------------------ errors */

/* A failure: what() is tn_error_text(). */
class error : public std::runtime_error {
 public:
  explicit error(tn_code code)
      : std::runtime_error(tn_error_text()), code_(code) {}
  tn_code code() const noexcept {
    return code_;
  }

 private:
  tn_code code_;
};

/* Throws an error if the code is a failure. */
inline void check(tn_code code) {
  if (code != TN_OK) throw error(code);
}

/* ----------------------------------------------------------------- handles */

/* The only owner of an object of C; empty after a move. */
template <class T, void (*Release)(T *)>
class handle {
 public:
  T *get() const noexcept {
    return object_.get();
  }
  explicit operator bool() const noexcept {
    return object_ != nullptr;
  }

 protected:
  handle() = default;
  explicit handle(T *object) : object_(object) {}
  void reset(T *object) {
    object_.reset(object);
  }

 private:
  struct releaser {
    void operator()(T *object) const noexcept {
      Release(object);
    }
  };
  std::unique_ptr<T, releaser> object_;
};

/* A copy of a text of the library, which is released. */
inline std::string take_text(tn_text *text) {
  const std::unique_ptr<tn_text, void (*)(tn_text *)> owner(text,
                                                            tn_text_release);
  return tn_text_get(text);
}

/* A shape. */
using dims = std::vector<std::int64_t>;

/* The element type of a type of C++. f16 and bf16 have none. */
template <class T>
constexpr tn_dtype dtype_of() {
  static_assert(std::is_arithmetic_v<T>, "arrays contain numbers");
  constexpr unsigned bits = 8 * sizeof(T);
  if constexpr (std::is_same_v<T, bool>) return TN_BOOL;
  if constexpr (std::is_floating_point_v<T>) return TN_DTYPE_MAKE(2, bits);
  return TN_DTYPE_MAKE(std::is_unsigned_v<T> ? 1 : 0, bits);
}

/* -------------------------------------------------------------- parameters */

/* One parameter of a call: {"axis", 1}, {"scale", 0.5}, {"kernel", {3, 3}}. */
class param {
 public:
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  param(std::string key, T value)
      : key_(std::move(key)), value_(static_cast<std::int64_t>(value)) {}
  param(std::string key, double value) : key_(std::move(key)), value_(value) {}
  param(std::string key, const char *value)
      : key_(std::move(key)), value_(std::string(value)) {}
  param(std::string key, std::string value)
      : key_(std::move(key)), value_(std::move(value)) {}
  param(std::string key, std::initializer_list<std::int64_t> value)
      : key_(std::move(key)), value_(dims(value)) {}
  param(std::string key, dims value)
      : key_(std::move(key)), value_(std::move(value)) {}
  param(std::string key, std::vector<double> value)
      : key_(std::move(key)), value_(std::move(value)) {}

  /* Borrowed as long as the parameter exists. */
  tn_value value() const {
    const char *key = key_.c_str();
    if (auto i = std::get_if<std::int64_t>(&value_))
      return tn_value_int(key, *i);
    if (auto f = std::get_if<double>(&value_)) return tn_value_float(key, *f);
    if (auto s = std::get_if<std::string>(&value_))
      return tn_value_text(key, s->c_str());
    if (auto ints = std::get_if<dims>(&value_))
      return tn_value_ints(key, ints->data(),
                           static_cast<std::uint32_t>(ints->size()));
    const auto &floats = std::get<std::vector<double>>(value_);
    return tn_value_floats(key, floats.data(),
                           static_cast<std::uint32_t>(floats.size()));
  }

 private:
  std::string key_;
  std::variant<std::int64_t, double, std::string, dims, std::vector<double>>
      value_;
};

using param_list = std::vector<param>;

/* Checked parameters of an operator. Without any, `get()` is NULL: defaults. */
class params : public handle<tn_params, tn_params_release> {
 public:
  params() = default;
  params(tn_operator *op, const param_list &list) {
    if (list.empty()) return;
    std::vector<tn_value> values;
    for (const param &each : list) values.push_back(each.value());
    tn_params *made = nullptr;
    check(tn_params_create(op, values.data(), values.size(), &made));
    reset(made);
  }
  /* For tn_graph_node and for people. */
  std::string text() const {
    if (get() == nullptr) return "";
    tn_text *text = nullptr;
    check(tn_params_text(get(), &text));
    return take_text(text);
  }
};

/* ----------------------------------------------------------------- runtime */

class array;

/* An input of a call: an array, or nullptr for an omitted optional one.
 * Borrowed. */
class input {
 public:
  input(const array &from);
  input(std::nullptr_t) {}
  tn_array *get() const {
    return array_;
  }

 private:
  tn_array *array_ = nullptr;
};

/* The inputs of a call, as C wants them: {x, y}, or a vector of arrays. */
class inputs {
 public:
  inputs(std::initializer_list<input> list) {
    for (const input &each : list) arrays_.push_back(each.get());
  }
  inputs(const std::vector<array> &list);
  tn_inputs get() const {
    return {arrays_.size(), arrays_.data()};
  }
  std::size_t size() const {
    return arrays_.size();
  }

 private:
  std::vector<tn_array *> arrays_;
};

/* "plugin.op" or "plugin.op@2". Borrowed from the runtime. */
inline tn_operator *find_operator(tn_runtime *rt, const std::string &name) {
  tn_operator *op = nullptr;
  check(tn_operator_get(rt, name.c_str(), &op));
  return op;
}

/* Plugins, operators and devices. */
class runtime : public handle<tn_runtime, tn_runtime_release> {
 public:
  explicit runtime(const tn_options *options = nullptr) {
    tn_runtime *made = nullptr;
    check(tn_runtime_create(options, &made));
    reset(made);
  }
  void load(const std::string &path) {
    check(tn_plugin_load(get(), path.c_str()));
  }
  void load_standard() {
    check(tn_plugins_load_standard(get()));
  }
  void wait() {
    check(tn_wait_all(get()));
  }
  void seed(std::uint64_t value) {
    check(tn_random_seed(get(), value));
  }

  tn_place place(const std::string &text) const {
    tn_place place{};
    check(tn_place_parse(get(), text.c_str(), &place));
    return place;
  }

  /* Calls an operator by name: its first output, or all visible ones. */
  array call(const std::string &name, const inputs &in,
             const param_list &list = {}, bool train = false) const;
  std::vector<array> call_all(const std::string &name, const inputs &in,
                              const param_list &list = {},
                              bool train = false) const;
};

/* ------------------------------------------------------------------ arrays */

class array : public handle<tn_array, tn_array_release> {
 public:
  array() = default;
  /* Becomes an owner of the object. */
  explicit array(tn_array *object) : handle(object) {}
  array(const runtime &rt, const tenon::dims &size, tn_dtype dtype) {
    const tn_spec spec = {dtype, rank_of(size), size.data()};
    tn_array *made = nullptr;
    check(tn_array_create(rt.get(), &spec, &made));
    reset(made);
  }
  template <class T>
  static array of(const runtime &rt, const tenon::dims &size,
                  const std::vector<T> &values) {
    array made(rt, size, dtype_of<T>());
    made.set(values);
    return made;
  }
  /* Another owner of the same object. */
  array share() const {
    return array(tn_array_retain(get()));
  }

  std::size_t size() const {
    return static_cast<std::size_t>(tn_array_size(get()));
  }
  tn_dtype dtype() const {
    return tn_array_tensor(get())->dtype;
  }
  tenon::dims shape() const {
    const tn_tensor *t = tn_array_tensor(get());
    return tenon::dims(t->shape, t->shape + t->ndim);
  }
  void wait() const {
    check(tn_array_wait(get()));
  }

  /* Elements in row-major order; the type must be that of the array. */
  template <class T>
  std::vector<T> values() const {
    static_assert(!std::is_same_v<T, bool>, "read bools as std::uint8_t");
    require(dtype_of<T>());
    std::vector<T> found(size());
    check(tn_array_get(get(), found.data(), found.size() * sizeof(T)));
    return found;
  }
  template <class T>
  void set(const std::vector<T> &values) {
    static_assert(!std::is_same_v<T, bool>, "write bools as std::uint8_t");
    require(dtype_of<T>());
    check(tn_array_set(get(), values.data(), values.size() * sizeof(T)));
  }
  void copy_from(const array &from) {
    check(tn_array_copy(get(), from.get()));
  }

  array cast(tn_dtype dtype) const {
    return make(
        [&](tn_array **out) { return tn_array_cast(get(), dtype, out); });
  }
  array to(tn_place place) const {
    return make([&](tn_array **out) { return tn_array_to(get(), place, out); });
  }

  /* Views, which share memory with this array. */
  array slice(std::int32_t axis, std::int64_t begin, std::int64_t end,
              std::int64_t step = 1) const {
    const tn_range range = {axis, 0, begin, end, step};
    return make(
        [&](tn_array **out) { return tn_array_slice(get(), &range, out); });
  }
  array index(std::int32_t axis, std::int64_t at) const {
    return make(
        [&](tn_array **out) { return tn_array_index(get(), axis, at, out); });
  }
  array reshape(const tenon::dims &to) const {
    return make([&](tn_array **out) {
      return tn_array_reshape(get(), rank_of(to), to.data(), out);
    });
  }
  array transpose() const {
    return make([&](tn_array **out) {
      return tn_array_transpose(get(), nullptr, out);
    });
  }
  array broadcast(const tenon::dims &to) const {
    return make([&](tn_array **out) {
      return tn_array_broadcast(get(), rank_of(to), to.data(), out);
    });
  }
  array bits(tn_dtype type) const {
    return make(
        [&](tn_array **out) { return tn_array_bits(get(), type, out); });
  }

 private:
  template <class Function>
  static array make(Function create) {
    tn_array *made = nullptr;
    check(create(&made));
    return array(made);
  }
  static std::int32_t rank_of(const tenon::dims &size) {
    return static_cast<std::int32_t>(size.size());
  }
  void require(tn_dtype wanted) const {
    const bool bytes = wanted == TN_U8 && dtype() == TN_BOOL;
    if (dtype() != wanted && !bytes)
      throw std::invalid_argument(std::string("the array has elements of ") +
                                  tn_dtype_name(dtype()) + ", not of " +
                                  tn_dtype_name(wanted) + "; cast it");
  }
};

inline input::input(const array &from) : array_(from.get()) {}

inline inputs::inputs(const std::vector<array> &list) {
  for (const array &each : list) arrays_.push_back(each.get());
}

/* Calls `run` with places for outputs, and owns the created arrays. */
template <class Function>
std::vector<array> collect(std::size_t n, Function run) {
  std::vector<tn_array *> places(n);
  const tn_outputs out = {n, places.data(), nullptr};
  check(run(&out));
  std::vector<array> found;
  for (tn_array *each : places) found.emplace_back(each);
  return found;
}

/* Number of visible outputs of a call. */
inline std::size_t count_outputs(tn_operator *op, const params &given,
                                 std::size_t n_in) {
  std::uint32_t visible = 0;
  const tn_op *description = tn_operator_desc(op);
  if (description == nullptr) throw error(TN_NOT_FOUND);
  const std::size_t states = description->n_aux;
  check(tn_operator_outputs(
      op, given.get(),
      static_cast<std::uint32_t>(n_in >= states ? n_in - states : n_in),
      nullptr, &visible));
  return visible;
}

inline std::vector<array> runtime::call_all(const std::string &name,
                                            const inputs &in,
                                            const param_list &list,
                                            bool train) const {
  tn_operator *op = find_operator(get(), name);
  const params given(op, list);
  const tn_inputs all = in.get();
  return collect(
      count_outputs(op, given, in.size()), [&](const tn_outputs *out) {
        return train ? tn_call_train(get(), op, &all, given.get(), out)
                     : tn_call(get(), op, &all, given.get(), out);
      });
}

inline array runtime::call(const std::string &name, const inputs &in,
                           const param_list &list, bool train) const {
  return std::move(call_all(name, in, list, train).at(0));
}

/* ------------------------------------------------------------------- tapes */

/* Records calls, and differentiates them. */
class tape : public handle<tn_tape, tn_tape_release> {
 public:
  explicit tape(const runtime &rt) : runtime_(rt.get()) {
    tn_tape *made = nullptr;
    check(tn_tape_create(rt.get(), &made));
    reset(made);
  }
  void watch(const array &x) {
    check(tn_tape_watch(get(), x.get()));
  }

  /* Like runtime::call; the runtime must exist as long as the tape. */
  array call(const std::string &name, const inputs &in,
             const param_list &list = {}, bool train = false) {
    tn_operator *op = find_operator(runtime_, name);
    const params given(op, list);
    const tn_inputs all = in.get();
    auto found = collect(
        count_outputs(op, given, in.size()), [&](const tn_outputs *out) {
          return train ? tn_tape_call_train(get(), op, &all, given.get(), out)
                       : tn_tape_call(get(), op, &all, given.get(), out);
        });
    return std::move(found.at(0));
  }

  /* Gradients of the sum of `heads` with respect to each of `of`. */
  std::vector<array> gradient(const inputs &heads, const inputs &of,
                              std::uint32_t flags = 0) {
    return collect(of.size(), [&](const tn_outputs *out) {
      tn_tape_query query{};
      query.struct_size = sizeof query;
      query.flags = flags;
      query.heads = heads.get();
      query.of = of.get();
      query.gradients = *out;
      return tn_tape_gradient(get(), &query);
    });
  }

 private:
  tn_runtime *runtime_;
};

/* ------------------------------------------------------------------ graphs */

/* An output of a node of one graph. */
class symbol {
 public:
  symbol() : entry_(tn_entry{TN_NONE, 0}) {} /* an omitted optional input */
  explicit symbol(tn_entry entry) : entry_(entry) {}
  /* Output number `index` of the same node. */
  symbol output(std::uint32_t index) const {
    return symbol(tn_entry{entry_.node, index});
  }
  tn_entry get() const {
    return entry_;
  }

 private:
  tn_entry entry_;
};

class graph : public handle<tn_graph, tn_graph_release> {
 public:
  /* The runtime must exist as long as the graph. */
  explicit graph(const runtime &rt) : runtime_(rt.get()) {
    tn_graph *made = nullptr;
    check(tn_graph_create(rt.get(), &made));
    reset(made);
  }
  static graph load(const runtime &rt, const std::string &path) {
    tn_graph *made = nullptr;
    check(tn_graph_load(rt.get(), path.c_str(), &made));
    graph loaded(rt);
    loaded.reset(made);
    return loaded;
  }
  void save(const std::string &path) const {
    check(tn_graph_save(get(), path.c_str()));
  }
  std::string json() const {
    tn_text *text = nullptr;
    check(tn_graph_json(get(), &text));
    return take_text(text);
  }

  symbol variable(const std::string &name) {
    tn_entry made{};
    check(tn_graph_variable(get(), name.c_str(), nullptr, &made));
    return symbol(made);
  }
  /* Adds a call: its first output. Omitted inputs become variables. */
  symbol call(const std::string &op, std::initializer_list<symbol> in,
              const param_list &list = {}, const std::string &name = "") {
    std::vector<tn_entry> entries;
    for (const symbol &each : in) entries.push_back(each.get());
    const std::string text = params(find_operator(runtime_, op), list).text();
    tn_graph_node node{};
    node.struct_size = sizeof node;
    node.n_in = static_cast<std::uint32_t>(entries.size());
    node.op = op.c_str();
    node.params = list.empty() ? nullptr : text.c_str();
    node.name = name.empty() ? nullptr : name.c_str();
    node.in = entries.data();
    tn_entry made{};
    check(tn_graph_call(get(), &node, &made));
    return symbol(made);
  }
  void set_heads(std::initializer_list<symbol> heads) {
    std::vector<tn_entry> entries;
    for (const symbol &each : heads) entries.push_back(each.get());
    check(tn_graph_heads_set(get(), entries.data(), entries.size()));
  }
  symbol find(const std::string &name) const {
    tn_entry found{};
    check(tn_graph_find(get(), name.c_str(), &found));
    return symbol(found);
  }

 private:
  tn_runtime *runtime_;
};

/* ---------------------------------------------------------------- programs */

/* An array for the argument or the state of that name. Borrowed. */
struct binding {
  std::string name;
  input value;
};

class program : public handle<tn_program, tn_program_release> {
 public:
  /* `request` is for the gradients of all arguments. */
  program(const graph &net, std::initializer_list<binding> bindings,
          tn_req request = TN_REQ_NULL) {
    std::vector<tn_argument> arguments;
    for (const binding &each : bindings) {
      tn_argument argument{};
      argument.name = each.name.c_str();
      argument.array = each.value.get();
      argument.known.ndim = -1;
      arguments.push_back(argument);
    }
    tn_bind how{};
    how.struct_size = sizeof how;
    how.request = request;
    how.arguments = arguments.data();
    how.n_arguments = arguments.size();
    bind(net, how);
  }
  program(const graph &net, const tn_bind &how) {
    bind(net, how);
  }

  void forward(std::uint32_t flags = 0) {
    check(tn_program_forward(get(), flags));
  }
  /* Of losses, whose gradients are ones, or with a weight for each head. */
  void backward() {
    check(tn_program_backward(get(), nullptr, 0));
  }
  void backward(const inputs &weights) {
    const tn_inputs all = weights.get();
    check(tn_program_backward(get(), all.arrays, all.n));
  }

  /* Arrays of the program, with one more owner. */
  array output(std::size_t index = 0) const {
    tn_array *found = nullptr;
    check(tn_program_output(get(), index, &found));
    return array(tn_array_retain(found));
  }
  array argument(const std::string &name) const {
    return find(TN_PROGRAM_ARGUMENT, name);
  }
  array gradient(const std::string &name) const {
    return find(TN_PROGRAM_GRADIENT, name);
  }

 private:
  void bind(const graph &net, const tn_bind &how) {
    tn_program *made = nullptr;
    check(tn_program_bind(net.get(), &how, &made));
    reset(made);
  }
  array find(std::uint32_t what, const std::string &name) const {
    tn_array *found = nullptr;
    check(tn_program_array(get(), what, name.c_str(), &found));
    return array(tn_array_retain(found));
  }
};

}  // namespace tenon

#endif /* TENON_TENON_HPP_ */
