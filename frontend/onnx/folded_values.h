/// Reads what an exporter's optimizer records of the values that it folds.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/import.h"

namespace rannc::frontend {

/// By value that was computed ahead of a run, the names of all that it was computed from: stored tensors, and the
/// values between. torch.onnx.export with dynamo=True writes them into a graph's metadata. Empty where there are none.
using FoldedValues = std::map<std::string, std::vector<std::string>>;
Result<FoldedValues> read_folded_values(const std::filesystem::path& path, const ImportOptions& options = {});
/// The same of a model whose bytes are at hand.
Result<FoldedValues> read_folded_values_of(std::string_view bytes, const std::filesystem::path& path);

}  // namespace rannc::frontend
