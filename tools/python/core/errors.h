/// Errors of the libraries as the exception `rannc.Error`.
#pragma once

#include <nanobind/nanobind.h>

namespace rannc::python {

/// Adds `Error` to the module. From then on, `rannc::Error` becomes it in Python, with the attributes `place`, `cause`,
/// `rule` and `hint`. A failed check of ours becomes a `RuntimeError`, which says that it is a defect.
void add_errors(nanobind::module_& module);

}  // namespace rannc::python
