// Python objects for extensions that are compiled without torch's headers: everything that a tensor can do goes through
// the interpreter, so nothing here depends on how torch lays anything out. Any thread; the interpreter's lock is taken.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace khost_light {

class Lock {
 public:
  Lock() : state_(PyGILState_Ensure()) {}
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

// An error that the interpreter holds.
class PythonError : public std::exception {
 public:
  const char* what() const noexcept override { return "an error of Python"; }
};

// An argument of another type than the function takes.
class OtherType : public std::exception {
 public:
  const char* what() const noexcept override { return "incompatible function arguments"; }
};

class Object {
 public:
  Object() = default;
  Object(const Object& other) : object_(other.object_) {
    if (object_ != nullptr) {
      const Lock lock;
      Py_INCREF(object_);
    }
  }
  Object(Object&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Object& operator=(Object other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Object() {
    if (object_ != nullptr) {
      const Lock lock;
      Py_DECREF(object_);
    }
  }
  static Object steal(PyObject* object) {
    if (object == nullptr) {
      throw PythonError();
    }
    Object result;
    result.object_ = object;
    return result;
  }
  static Object borrow(PyObject* object) {
    Py_XINCREF(object);
    return steal(object);
  }
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

  Object attribute(const char* name) const {
    const Lock lock;
    return steal(PyObject_GetAttrString(object_, name));
  }
  // Calls a method with what PyObject_CallMethod takes.
  template <class... A>
  Object call(const char* name, const char* format = nullptr, A... arguments) const {
    const Lock lock;
    return steal(PyObject_CallMethod(object_, name, format, arguments...));
  }
  std::int64_t integer() const {
    const Lock lock;
    const long long value = PyLong_AsLongLong(object_);
    if (value == -1 && PyErr_Occurred() != nullptr) {
      throw PythonError();
    }
    return value;
  }
  bool truth() const {
    const Lock lock;
    const int value = PyObject_IsTrue(object_);
    if (value < 0) {
      throw PythonError();
    }
    return value != 0;
  }

 private:
  PyObject* object_ = nullptr;
};

inline const Object& torch() {
  static const Object* const module = [] {
    const Lock lock;
    return new Object(Object::steal(PyImport_ImportModule("torch")));
  }();
  return *module;
}

template <class... A>
std::string text_of(const A&... parts) {
  std::ostringstream out;
  ((void)(out << parts), ...);
  return out.str();
}

inline std::string message(const char* condition, const std::string& text) {
  return text.empty() ? std::string("Expected ") + condition + " to be true, but got false." : text;
}

}  // namespace khost_light
