// As much of pybind11 as bindings of functions use: m.def with names and defaults, tensors, numbers, texts, lists.
#pragma once

#include "khost_torch.h"

namespace khost_light {

template <class T>
struct Cast;

template <class T>
struct IntegerCast {
  static T from(PyObject* object) {
    if (PyFloat_Check(object) || PyIndex_Check(object) == 0) {
      throw OtherType();
    }
    return static_cast<T>(Object::steal(PyNumber_Index(object)).integer());
  }
  static Object to(T value) { return Object::steal(PyLong_FromLongLong(static_cast<long long>(value))); }
};
template <>
struct Cast<int> : IntegerCast<int> {};
template <>
struct Cast<long> : IntegerCast<long> {};
template <>
struct Cast<long long> : IntegerCast<long long> {};
template <>
struct Cast<unsigned> : IntegerCast<unsigned> {};
template <>
struct Cast<unsigned long> : IntegerCast<unsigned long> {};

template <class T>
struct RealCast {
  static T from(PyObject* object) {
    if (PyNumber_Check(object) == 0) {
      throw OtherType();
    }
    const double value = PyFloat_AsDouble(object);
    if (value == -1 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      throw OtherType();
    }
    return static_cast<T>(value);
  }
  static Object to(T value) { return Object::steal(PyFloat_FromDouble(value)); }
};
template <>
struct Cast<float> : RealCast<float> {};
template <>
struct Cast<double> : RealCast<double> {};

template <>
struct Cast<bool> {
  static bool from(PyObject* object) {
    if (object != Py_None && PyNumber_Check(object) == 0) {
      throw OtherType();
    }
    return Object::borrow(object).truth();
  }
  static Object to(bool value) { return Object::borrow(value ? Py_True : Py_False); }
};

template <>
struct Cast<std::string> {
  static std::string from(PyObject* object) {
    const char* text = PyUnicode_Check(object) != 0 ? PyUnicode_AsUTF8(object) : nullptr;
    if (text == nullptr) {
      throw OtherType();
    }
    return text;
  }
  static Object to(const std::string& value) {
    return Object::steal(PyUnicode_FromStringAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
  }
};

template <>
struct Cast<at::Tensor> {
  static at::Tensor from(PyObject* object) {
    static PyObject* const type = torch().attribute("Tensor").release();
    if (PyObject_IsInstance(object, type) != 1) {
      throw OtherType();
    }
    return at::Tensor(Object::borrow(object));
  }
  static Object to(const at::Tensor& value) { return Object::borrow(value.defined() ? value.object().get() : Py_None); }
};

template <class T>
struct Cast<std::optional<T>> {
  static std::optional<T> from(PyObject* object) {
    return object == Py_None ? std::nullopt : std::optional<T>(Cast<T>::from(object));
  }
  static Object to(const std::optional<T>& value) { return value ? Cast<T>::to(*value) : Object::borrow(Py_None); }
};

template <class T>
struct Cast<std::vector<T>> {
  static std::vector<T> from(PyObject* object) {
    if (PyList_Check(object) == 0 && PyTuple_Check(object) == 0) {
      throw OtherType();
    }
    std::vector<T> result;
    for (Py_ssize_t i = 0; i < PySequence_Size(object); i++) {
      result.push_back(Cast<T>::from(Object::steal(PySequence_GetItem(object, i)).get()));
    }
    return result;
  }
  static Object to(const std::vector<T>& values) {
    Object list = Object::steal(PyList_New(static_cast<Py_ssize_t>(values.size())));
    for (std::size_t i = 0; i < values.size(); i++) {
      PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Cast<T>::to(values[i]).release());
    }
    return list;
  }
};

template <>
struct Cast<c10::IntArrayRef> {
  static c10::IntArrayRef from(PyObject* object) { return Cast<std::vector<std::int64_t>>::from(object); }
  static Object to(const c10::IntArrayRef& values) { return Cast<std::vector<std::int64_t>>::to(values.vec()); }
};

template <class... T>
struct Cast<std::tuple<T...>> {
  static Object to(const std::tuple<T...>& values) {
    Object tuple = Object::steal(PyTuple_New(sizeof...(T)));
    Py_ssize_t place = 0;
    std::apply([&](const T&... one) { (PyTuple_SET_ITEM(tuple.get(), place++, Cast<T>::to(one).release()), ...); },
               values);
    return tuple;
  }
};

template <class A, class B>
struct Cast<std::pair<A, B>> {
  static Object to(const std::pair<A, B>& value) { return Cast<std::tuple<A, B>>::to({value.first, value.second}); }
};

struct Argument {
  std::string name;
  Object standard;  // the default, or nothing
};

// One function of a module, and the one of the same name that was defined after it.
struct Function {
  std::string name;
  std::vector<Argument> arguments;
  std::size_t count = 0;
  std::function<Object(PyObject* const*)> body;
  PyMethodDef method{};
  std::unique_ptr<Function> next;
};

inline bool fits(const Function& function, PyObject* positional, PyObject* named, std::vector<PyObject*>& values) {
  values.assign(function.count, nullptr);
  const auto given = static_cast<std::size_t>(PyTuple_GET_SIZE(positional));
  std::size_t used = 0;
  for (std::size_t i = 0; i < function.count; i++) {
    if (i < given) {
      values[i] = PyTuple_GET_ITEM(positional, static_cast<Py_ssize_t>(i));
    } else if (i < function.arguments.size()) {
      PyObject* const found =
          named != nullptr ? PyDict_GetItemString(named, function.arguments[i].name.c_str()) : nullptr;
      used += found != nullptr;
      values[i] = found != nullptr ? found : function.arguments[i].standard.get();
    }
    if (values[i] == nullptr) {
      return false;
    }
  }
  return given <= function.count && used == static_cast<std::size_t>(named != nullptr ? PyDict_Size(named) : 0);
}

inline PyObject* invoke(PyObject* self, PyObject* positional, PyObject* named) {
  auto* function = static_cast<Function*>(PyCapsule_GetPointer(self, nullptr));
  const std::string name = function->name;
  try {
    std::vector<PyObject*> values;
    for (; function != nullptr; function = function->next.get()) {
      if (!fits(*function, positional, named, values)) {
        continue;
      }
      try {
        return function->body(values.data()).release();
      } catch (const OtherType&) {
      }
    }
    PyErr_Format(PyExc_TypeError, "%s(): incompatible function arguments", name.c_str());
  } catch (const PythonError&) {
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

template <class R, class... A, class F, std::size_t... I>
Object run_with(F& function, PyObject* const* values, std::index_sequence<I...>) {
  std::tuple<std::decay_t<A>...> arguments{Cast<std::decay_t<A>>::from(values[I])...};
  (void)values;
  if constexpr (std::is_void_v<R>) {
    function(std::get<I>(arguments)...);
    return Object::borrow(Py_None);
  } else {
    return Cast<std::decay_t<R>>::to(function(std::get<I>(arguments)...));
  }
}

template <class R, class... A, class F>
void take(Function& to, F function, R (*)(A...)) {
  to.count = sizeof...(A);
  to.body = [function](PyObject* const* values) mutable {
    return run_with<R, A...>(function, values, std::index_sequence_for<A...>());
  };
}

template <class F, class R, class... A>
auto signature(R (F::*)(A...) const) -> R (*)(A...);

}  // namespace khost_light

namespace pybind11 {

struct none {};

struct arg_v {
  khost_light::Argument argument;
};

struct arg {
  const char* name;
  constexpr explicit arg(const char* text) : name(text) {}
  template <class T>
  arg_v operator=(const T& value) const {
    return {{name, khost_light::Cast<std::decay_t<T>>::to(value)}};
  }
  arg_v operator=(const char* value) const { return {{name, khost_light::Cast<std::string>::to(value)}}; }
  arg_v operator=(none) const { return {{name, khost_light::Object::borrow(Py_None)}}; }
  arg_v operator=(std::nullopt_t) const { return *this = none(); }
};

namespace literals {
constexpr arg operator""_a(const char* name, std::size_t) {
  return arg(name);
}
}  // namespace literals

class module_ {
 public:
  explicit module_(PyObject* module) : module_ptr_(module) {}

  template <class F, class... Extra>
  module_& def(const char* name, F function, const Extra&... extra) {
    auto made = std::make_unique<khost_light::Function>();
    made->name = name;
    if constexpr (std::is_pointer_v<F>) {
      khost_light::take(*made, function, function);
    } else {
      khost_light::take(*made, function, decltype(khost_light::signature(&F::operator()))(nullptr));
    }
    (note(*made, extra), ...);
    if (!made->arguments.empty() && made->arguments.size() != made->count) {
      throw std::runtime_error(std::string(name) + ": other arguments are named than it has");
    }
    add(std::move(made));
    return *this;
  }

  struct Doc {
    template <class T>
    void operator=(const T&) {}
  };
  Doc doc() const { return {}; }

 private:
  static void note(khost_light::Function&, const char*) {}
  static void note(khost_light::Function& function, const arg& one) { function.arguments.push_back({one.name, {}}); }
  static void note(khost_light::Function& function, const arg_v& one) { function.arguments.push_back(one.argument); }

  void add(std::unique_ptr<khost_light::Function> made) {
    static std::map<std::string, khost_light::Function*> known;
    khost_light::Function*& last = known[made->name];
    if (last != nullptr) {
      last->next = std::move(made);
      last = last->next.get();
      return;
    }
    last = made.release();  // as long as the process
    last->method = {last->name.c_str(),
                    reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(khost_light::invoke)),
                    METH_VARARGS | METH_KEYWORDS, nullptr};
    const khost_light::Object capsule = khost_light::Object::steal(PyCapsule_New(last, nullptr, nullptr));
    if (PyModule_AddObject(module_ptr_, last->name.c_str(), PyCFunction_New(&last->method, capsule.get())) != 0) {
      throw khost_light::PythonError();
    }
  }
  PyObject* module_ptr_;
};
using module = module_;

}  // namespace pybind11

namespace py = pybind11;

#define KHOST_LIGHT_MODULE(name, variable)                                                       \
  static void khost_fill_##name(pybind11::module_&);                                             \
  extern "C" __attribute__((visibility("default"))) PyObject* PyInit_##name() {                  \
    static PyModuleDef definition{                                                               \
        PyModuleDef_HEAD_INIT, #name, nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr}; \
    PyObject* const made = PyModule_Create(&definition);                                         \
    try {                                                                                        \
      pybind11::module_ filled(made);                                                            \
      khost_fill_##name(filled);                                                                 \
      return made;                                                                               \
    } catch (const khost_light::PythonError&) {                                                  \
    } catch (const std::exception& error) {                                                      \
      PyErr_SetString(PyExc_ImportError, error.what());                                          \
    }                                                                                            \
    return nullptr;                                                                              \
  }                                                                                              \
  static void khost_fill_##name(pybind11::module_& variable)
#define PYBIND11_MODULE(name, variable) KHOST_LIGHT_MODULE(name, variable)
