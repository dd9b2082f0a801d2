/// `manifest.json` of a checkpoint: the run's progress and settings, and the files of its devices.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostic.h"
#include "runtime/train/checkpoint.h"

namespace rannc::runtime {

struct Manifest {
  CheckpointState state;
  std::vector<std::string> files;
  bool has_digests = false;  ///< of itself and of all tensors; older formats have none
};

/// Writes it into `folder`.
Result<void> write_manifest(const std::string& folder, const Manifest& manifest);
/// Reads the manifest of a checkpoint. Input is untrusted: errors name the field, what it is and what was expected.
Result<Manifest> read_manifest(const std::string& folder);
/// Parses the text of a manifest in `folder`.
Result<Manifest> parse_manifest(std::string_view text, const std::string& folder);
/// The text of a manifest, with a digest of its content.
std::string print_manifest(const Manifest& manifest);
bool has_manifest(const std::string& folder);
std::string manifest_path(const std::string& folder);

}  // namespace rannc::runtime
