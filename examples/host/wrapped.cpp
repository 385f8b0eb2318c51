// SPDX-License-Identifier: Apache-2.0
// wrapped.cpp: a host in C++17: failures are exceptions, owners release all
// that they have, and the memory of a std::vector becomes an array. For CMake:
//
//   find_package(PkgConfig REQUIRED)
//   pkg_check_modules(tenon REQUIRED IMPORTED_TARGET tenon)
//   target_link_libraries(wrapped PRIVATE PkgConfig::tenon)
#include <tenon/exchange.h>

#include <iostream>
#include <memory>
#include <stdexcept>
#include <vector>

struct Failure : std::runtime_error {
  explicit Failure(tn_code c) : std::runtime_error(tn_error_text()), code(c) {}
  tn_code code;
};

void check(tn_code code) {
  if (code != TN_OK) throw Failure(code);
}

template <auto release>
struct Releases {
  template <class T>
  void operator()(T *object) const {
    release(object);
  }
};
using Runtime = std::unique_ptr<tn_runtime, Releases<tn_runtime_release>>;
using Params = std::unique_ptr<tn_params, Releases<tn_params_release>>;
using Array = std::unique_ptr<tn_array, Releases<tn_array_release>>;

Runtime start() {
  tn_options options = {};
  options.struct_size = sizeof options;
  options.workers = 2;
  tn_runtime *rt = nullptr;
  check(tn_runtime_create(&options, &rt));
  return Runtime(rt);
}

// An array of the vector's own memory, which goes when nothing uses it.
Array lend(tn_runtime *rt, std::vector<float> values) {
  struct Lent {
    tn_dlpack_versioned object;
    std::vector<float> values;
    int64_t length;
  };
  auto lent = std::make_unique<Lent>();
  lent->values = std::move(values);
  lent->length = static_cast<int64_t>(lent->values.size());
  tn_dlpack_versioned &object = lent->object;
  object.major = TN_DLPACK_MAJOR;
  object.manager_ctx = lent.get();
  object.deleter = [](tn_dlpack_versioned *self) {
    delete static_cast<Lent *>(self->manager_ctx);
  };
  object.tensor.device_type = TN_DEVICE_CPU;
  object.tensor.dtype = TN_F32;
  object.tensor.ndim = 1;
  object.tensor.shape = &lent->length;
  object.tensor.data = lent->values.data();
  tn_array *array = nullptr;
  check(tn_array_from_dlpack_versioned(rt, &object, 0, &array));
  (void)lent.release();  // it is the array's now
  return Array(array);
}

// Calls an operator of one output.
Array call(tn_runtime *rt, const char *name, std::vector<tn_array *> in,
           const char *text = "") {
  tn_operator *op = nullptr;
  tn_params *params = nullptr;
  tn_array *out = nullptr;
  const tn_inputs inputs = {in.size(), in.data()};
  const tn_outputs outputs = {1, &out, nullptr};
  check(tn_operator_get(rt, name, &op));
  check(tn_params_parse(op, text, &params));
  const Params owner(params);
  check(tn_call(rt, op, &inputs, params, &outputs));
  return Array(out);
}

int main() try {
  const Runtime rt = start();
  check(tn_plugins_load_standard(rt.get()));
  const Array x = lend(rt.get(), {1, 2, 3});
  const Array y = call(rt.get(), "elemwise.quadratic", {x.get()}, "a=1 c=1");
  std::vector<float> values(static_cast<size_t>(tn_array_size(y.get())));
  check(tn_array_get(y.get(), values.data(), values.size() * sizeof(float)));
  for (const float value : values) std::cout << value << '\n';
  (void)call(rt.get(), "elemwise.add", {x.get()});
} catch (const Failure &failure) {
  std::cout << tn_code_name(failure.code) << ": " << failure.what() << '\n';
}
