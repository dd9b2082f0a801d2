// Compiles TorchScript source and saves it.
#include "codegen/torchscript_archive.h"

#include <torch/csrc/jit/api/module.h>

#include "codegen/internal/define.h"

namespace rannc::codegen {

Result<void> save_torchscript(const std::string& source, const std::string& name, const std::string& path) {
  try {
    torch::jit::Module module(c10::QualifiedName("__torch__." + name));
    define(module, source);
    module.save(path);
    return {};
  } catch (const c10::Error& failure) {
    return error({.file = path}, std::string("cannot compile the program: ") + failure.what_without_backtrace());
  } catch (const std::exception& failure) {
    return error({.file = path}, std::string("cannot write the program: ") + failure.what());
  }
}

}  // namespace rannc::codegen
