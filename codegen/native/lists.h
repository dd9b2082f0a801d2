/// Arguments of operators that take lists of tensors. Apart, because these headers of LibTorch compile slowly.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>

#include "codegen/native/calls.h"

namespace rannc::native {

inline c10::List<std::optional<at::Tensor>> optional_list(std::initializer_list<std::optional<at::Tensor>> tensors) {
  return c10::List<std::optional<at::Tensor>>(tensors);
}

}  // namespace rannc::native
