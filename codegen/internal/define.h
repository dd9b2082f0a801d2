/// Compiles the source of a program into a module.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

namespace rannc::codegen {

/// As `Module::define`, but also resolves `torch.ops.<namespace>.<name>`. LibTorch's exceptions pass through.
void define(torch::jit::Module& module, const std::string& source);

}  // namespace rannc::codegen
