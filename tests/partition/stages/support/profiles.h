/// Published profiles for tests, where the shared data lies beside the checkout.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "partition/formats/pipedream_text.h"

namespace rannc::partition::testing {

/// Reads `$RANNC_SHARED_DIR/data/<name>` or `<source>/../shared/data/<name>`; nothing where the folder is absent.
std::optional<PipedreamProfile> shared_profile(const std::string& name);

/// `tests/data/profiles/<name>`, which every checkout has.
PipedreamProfile checked_in_profile(const std::string& name);

/// Forward + backward ms of all layers in topological order, smaller node numbers first.
std::vector<double> layer_costs(const PipedreamProfile& profile);
/// Bytes of parameters and activations of the same layers.
std::vector<double> layer_sizes(const PipedreamProfile& profile);

}  // namespace rannc::partition::testing
