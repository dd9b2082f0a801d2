/// A TorchScript archive loaded by LibTorch.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

#include "frontend/torchscript/internal/archive/archive_file.h"

namespace rannc::frontend::torchscript {

class Archive {
 public:
  /// Errors: it is no TorchScript archive (the message names what it is), or LibTorch rejects it.
  static Result<Archive> load(ArchiveFile file);

  const torch::jit::Module& module() const { return module_; }
  const std::string& path() const { return file_.path(); }
  const ArchiveFile& file() const { return file_; }

 private:
  explicit Archive(ArchiveFile file) : file_(std::move(file)) {}
  Diagnostic fail(const std::string& refusal) const;

  ArchiveFile file_;
  torch::jit::Module module_;
};

}  // namespace rannc::frontend::torchscript
