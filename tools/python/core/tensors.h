/// Tensors across the border between Python and C++, by DLPack, without copies.
#pragma once

#include <nanobind/nanobind.h>

#include "runtime/execute/value.h"

namespace rannc::python {

/// Takes over the tensor of a capsule of `torch.utils.dlpack.to_dlpack`. The value shares its memory. Throws
/// `rannc::Error` if it is no capsule, or one that was used before.
runtime::Value value_of(nanobind::handle capsule, const char* name);
/// Returns a capsule for `torch.utils.dlpack.from_dlpack`, which shares the value's memory.
nanobind::object capsule_of(const runtime::Value& value);

}  // namespace rannc::python
