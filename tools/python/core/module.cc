// The extension `rannc._core`: the libraries' functions as the modules of the package call them. Users call the
// package.
#include <nanobind/nanobind.h>

#include "tools/python/core/bindings.h"
#include "tools/python/core/errors.h"

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false);  // of objects that other modules keep until the process ends
  rannc::python::add_errors(module);
  rannc::python::add_compiler(module);
  rannc::python::add_trainer(module);
}
