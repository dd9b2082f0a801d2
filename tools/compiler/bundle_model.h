/// Reads the model of a bundle, from which another plan can be made without the model's file.
#pragma once

#include <string>
#include <vector>

#include "runtime/bundle/bundle.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// What another plan of a bundle's model takes over from its present one.
struct PlannedBundle {
  uint32_t mini_batch = 0;  ///< unless another number is requested
  ir::PlanOptimizer optimizer;
  ir::Bindings sizes;  ///< of symbols other than the batch
  uint64_t seed = 0;
  std::vector<ir::PlanDevice> devices;  ///< of the present plan
  runtime::BundleForm form = runtime::BundleForm::kInterpreted;
  bool loops = true;  ///< whether compiled stages have loops; also of other forms

  /// Adds mini-batch to seed to a request.
  void apply(RequestedPlan& request) const;
};

struct BundleModel {
  /// The graph has the kernels of the present plan. Stored tensors are read from the bundle's files when needed.
  PreparedModel model;
  PlannedBundle planned;
  std::vector<runtime::Library> libraries;  ///< loaded
};

/// Whether the path names a folder with a manifest or a plan, which may be damaged.
bool is_bundle(const std::string& path);

/// Reads the bundle at `path`, of which all files must be present. `libraries`: other paths of its libraries of
/// operators.
Result<BundleModel> read_bundle(const std::string& path, const std::vector<std::string>& libraries);

}  // namespace rannc::tools
