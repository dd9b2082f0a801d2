#include "tools/python/core/errors.h"

#include <fmt/format.h>

#include <exception>
#include <string>

#include "ir/base/diagnostic.h"

namespace rannc::python {

namespace nb = nanobind;

namespace {

std::string hint_of(const Diagnostic& diagnostic) {
  std::string text;
  for (const Note& note : diagnostic.notes) {
    const std::string place = note.where.str();
    text += fmt::format("{}{}{}{}", text.empty() ? "" : "\n", place, place.empty() ? "" : ": ", note.message);
  }
  return text;
}

void raise(nb::handle type, const Diagnostic& diagnostic) {
  std::string text = diagnostic.str();
  constexpr std::string_view kWord = "error: ";
  if (const size_t at = text.find(kWord); at != std::string::npos) text.erase(at, kWord.size());
  nb::object raised = type(nb::str(text.c_str(), text.size()));
  const auto set = [&](const char* name, const std::string& value) {
    nb::setattr(raised, name, nb::str(value.c_str(), value.size()));
  };
  set("place", diagnostic.where.str());
  set("cause", diagnostic.message);
  set("rule", diagnostic.rule);
  set("hint", hint_of(diagnostic));
  PyErr_SetObject(type.ptr(), raised.ptr());
}

void translate(const std::exception_ptr& failure, void* type) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& known) {
    raise(nb::handle(static_cast<PyObject*>(type)), known.diagnostic());
  } catch (const InternalError& defect) {
    PyErr_SetString(PyExc_RuntimeError, fmt::format("This is a defect of rannc: {}", defect.what()).c_str());
  }
}

}  // namespace

void add_errors(nb::module_& module) {
  // Lives as long as the process, like the translator.
  PyObject* const type =
      PyErr_NewExceptionWithDoc("rannc.Error",
                                "What rannc cannot do with a model, an option, data, a file or the network.\n\n"
                                "place: file, line, node or option; empty if there is none\n"
                                "cause: what was found and what was expected\n"
                                "hint: second places and remedies, a line each; may be empty\n"
                                "rule: label of the verifier's rule; usually empty",
                                PyExc_RuntimeError, nullptr);
  if (type == nullptr) throw nb::python_error();
  module.attr("Error") = nb::borrow(type);
  nb::register_exception_translator(translate, type);
}

}  // namespace rannc::python
