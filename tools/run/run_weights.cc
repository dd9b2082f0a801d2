#include "tools/run/run_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "runtime/train/export_weights.h"

namespace rannc::tools {

namespace fs = std::filesystem;

Result<void> check_weight_flags(const WeightFlags& flags, const runtime::Bundle& bundle) {
  if (!flags.from.empty()) {
    RANNC_ASSIGN(const ir::StateMatch match, runtime::match_file(bundle.plan.graph, flags.from, flags.names()));
  }
  if (flags.to.empty()) return {};
  const fs::path to = flags.to;
  const fs::path folder = to.has_parent_path() ? to.parent_path() : fs::path(".");
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored))
    return error({flags.to, 0, 0, {}}, fmt::format("cannot be written: {} is not a folder", folder.string()));
  if (fs::is_directory(to, ignored)) return error({flags.to, 0, 0, {}}, "is a folder, expected a file to write");
  return {};
}

Result<void> take_weights(runtime::Trainer& trainer, const WeightFlags& flags, bool leads) {
  if (flags.from.empty()) return {};
  RANNC_ASSIGN(const runtime::WeightsLoaded loaded, trainer.load_weights(flags.from, flags.names()));
  const auto warn = [&](const std::vector<std::string>& names, const char* what) {
    if (leads && !names.empty())
      fmt::print(stderr, "warning: {}: {} {}: {}\n", flags.from, names.size(), what, fmt::join(names, ", "));
  };
  warn(loaded.missing, "tensors of the model are missing and stay as they are");
  warn(loaded.unexpected, "tensors are unknown to the model and excluded");
  return {};
}

Result<void> give_weights(const runtime::Bundle& bundle, const std::string& checkpoint, const WeightFlags& flags) {
  if (flags.to.empty()) return {};
  RANNC_ASSIGN(const runtime::StateWritten written,
               runtime::export_weights(
                   bundle, checkpoint, flags.to,
                   flags.averaged ? runtime::ExportedWeights::kAverages : runtime::ExportedWeights::kParameters));
  for (const std::string& warning : written.warnings) fmt::print(stderr, "warning: {}: {}\n", flags.to, warning);
  fmt::print("{} tensors of {} are in {}\n", written.tensors, checkpoint.empty() ? bundle.path : checkpoint, flags.to);
  return {};
}

}  // namespace rannc::tools
