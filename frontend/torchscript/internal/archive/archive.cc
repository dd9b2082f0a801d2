#include "frontend/torchscript/internal/archive/archive.h"

#include <fmt/format.h>
#include <torch/csrc/jit/serialization/import.h>

namespace rannc::frontend::torchscript {

namespace {

/// Describes what a file that LibTorch cannot load seems to be.
std::string advice(const std::string& refusal) {
  const auto mentions = [&](const char* text) { return refusal.find(text) != std::string::npos; };
  if (mentions("constants.pkl") || mentions("file not found"))
    return "it holds weights or a pickled module, not a program: export the model with torch.export.save, with "
           "torch.jit.save(torch.jit.trace(model, inputs), path), or with torch.onnx.export";
  const size_t begins = std::min(refusal.find_first_not_of(" \n"), refusal.size());
  const std::string first = refusal.substr(begins, refusal.find('\n', begins) - begins);
  constexpr std::string_view kUnknown = "Unknown builtin op: ";
  if (!first.starts_with(kUnknown)) return first;
  std::string op = first.substr(kUnknown.size());
  if (op.ends_with('.')) op.pop_back();
  return fmt::format("it calls {}, which LibTorch does not have: --load-library FILE loads a library that brings it",
                     op);
}

}  // namespace

Diagnostic Archive::fail(const std::string& refusal) const {
  return error(Location{path()}, fmt::format("cannot be read as TorchScript: {}", advice(refusal)));
}

Result<Archive> Archive::load(ArchiveFile file) {
  Archive archive(std::move(file));
  try {
    archive.module_ = torch::jit::load(archive.file_.reader(), at::kCPU);
  } catch (const c10::Error& failure) {
    return archive.fail(failure.what_without_backtrace());
  } catch (const std::exception& failure) {
    return archive.fail(failure.what());
  }
  return archive;
}

}  // namespace rannc::frontend::torchscript
