/// The parts of the extension.
#pragma once

#include <nanobind/nanobind.h>

namespace rannc::python {

void add_compiler(nanobind::module_& module);
void add_trainer(nanobind::module_& module);

}  // namespace rannc::python
