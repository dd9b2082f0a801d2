/// The folder in which a compiled model lies: plan, a program and weights per stage, manifest.
#pragma once

#include <string>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/bundle/safetensors.h"
#include "runtime/execute/signature.h"

namespace rannc::runtime {

/// Names inside a bundle.
inline constexpr const char* kPlanFile = "plan.rir";
inline constexpr const char* kManifestFile = "manifest.json";
/// Stored values that have a part of the state and that no stage takes (`unread_state`); only where there are any.
inline constexpr const char* kStateFile = "state.safetensors";
inline constexpr int kBundleVersion = 1;
std::string program_file(StageId stage);  ///< `stage0.pt`
std::string weights_file(StageId stage);  ///< `stage0.safetensors`

/// A shared library of a user's operators.
struct Library {
  std::string path;    ///< whole, where it was when the bundle was written
  std::string digest;  ///< `file_digest`
};

/// A bundle whose rules hold. Weights stay on disk until they are asked for.
struct Bundle {
  std::string path;
  ir::Plan plan;
  std::vector<Library> libraries;        ///< that its programs need (`runtime/bundle/libraries.h`)
  std::vector<Signature> signatures;     ///< by stage
  std::vector<SafetensorsFile> weights;  ///< by stage
  std::string program_path(StageId stage) const;
};

/// Stored values that have numbers and a part of the state (`ir::full_state`) though no stage's program takes them:
/// what was computed from them at compile time is in the programs, or nothing needs them. Ascending.
std::vector<ValueId> unread_state(const ir::Plan& plan);

/// Everything wrong with the bundle at `path`; empty: it holds. The rules (B1…) head verify_bundle.cc. Whether a
/// program fits its signature (B8) is seen by the engine that loads it.
std::vector<Diagnostic> verify_bundle(const std::string& path);

/// Verifies and opens.
Result<Bundle> open_bundle(const std::string& path);

/// Writes `manifest.json`: version, libraries, and size and digest of every other file of the bundle. The last file of
/// a bundle.
Result<void> write_manifest(const std::string& folder, const ir::Plan& plan,
                            const std::vector<Library>& libraries = {});

/// 32 hexadecimal digits over a file's bytes.
Result<std::string> file_digest(const std::string& path);

}  // namespace rannc::runtime
