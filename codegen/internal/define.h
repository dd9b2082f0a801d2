/// Compiles the source of a program into a module.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

namespace rannc::codegen {

/// As `Module::define`, but `torch.ops.<namespace>.<name>` is known too. LibTorch's exceptions pass through.
void define(torch::jit::Module& module, const std::string& source);

}  // namespace rannc::codegen
