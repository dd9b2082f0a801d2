/// The bundle: a folder with a plan, a program and weights per stage, and a manifest.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/plan/plan.h"
#include "runtime/bundle/compilation.h"
#include "runtime/bundle/safetensors.h"
#include "runtime/execute/signature.h"

namespace rannc::runtime {

/// Names inside a bundle.
inline constexpr const char* kPlanFile = "plan.rir";
inline constexpr const char* kManifestFile = "manifest.json";
/// Stored state that no stage reads (`unread_state`). The file is absent if there is none.
inline constexpr const char* kStateFile = "state.safetensors";
inline constexpr int kBundleVersion = 2;
std::string source_file(StageId stage);    ///< `stage0.cc`
std::string compiled_file(StageId stage);  ///< `stage0.so`
std::string weights_file(StageId stage);   ///< `stage0.safetensors`
/// `stage0.onnx`: the stage for other runtimes. Optional, like the file of its external tensors, `stage0.onnx.data`.
std::string model_file(StageId stage);

/// What the programs of a bundle are.
enum class BundleForm : uint8_t {
  kInterpreted,  ///< the functions of `plan.rir`
  kNative,       ///< C++ source and a shared library per stage
};
/// `interpreted`, `native`: in the manifest and on the command line.
std::string_view str(BundleForm form);
std::optional<BundleForm> parse_bundle_form(std::string_view text);
/// `stage0`: a program that runs the device of its rank. All stages of a bundle have one, or none has.
std::string executable_file(StageId stage);

/// The stages whose files a process needs; by default all.
struct HostedStages {
  std::optional<DeviceId> device = {};  ///< those of this device
  std::optional<StageId> stage = {};    ///< this one
  bool contains(const ir::Plan& plan, StageId id) const;
  /// Whether the process needs `kStateFile`. Of several processes, that of device 0 does: it exports weights.
  bool need_state() const { return !stage && (!device || *device == DeviceId(0)); }
};

/// A shared library of a user's operators.
struct Library {
  std::string path;    ///< absolute, at the time the bundle was written
  std::string digest;  ///< `file_digest`
};

/// A file of a bundle as its manifest lists it.
struct BundleFile {
  std::string name;
  uint64_t bytes = 0;
  std::string digest;  ///< `file_digest`
};

/// A verified bundle. Weights stay on disk until they are read.
struct Bundle {
  std::string path;
  BundleForm form = BundleForm::kInterpreted;
  std::optional<Compilation> compiled = {};  ///< of form `native`
  ir::Plan plan;
  HostedStages hosted;                   ///< the stages whose files were verified
  std::vector<BundleFile> files;         ///< those that were verified: the plan, and files of hosted stages
  std::vector<Library> libraries;        ///< needed by its programs (`runtime/bundle/libraries.h`)
  std::vector<Signature> signatures;     ///< by stage
  std::vector<SafetensorsFile> weights;  ///< by stage; without entries for stages that are not hosted
  std::string compiled_path(StageId stage) const;
};

/// Returns the stored values that have data and belong to the state (`ir::full_state`) but that no stage's program
/// reads. Either they were folded into the programs at compile time, or nothing needs them. Ascending.
std::vector<ValueId> unread_state(const ir::Plan& plan);

/// Returns the stored values whose bytes the files of the hosted stages contain.
std::set<ValueId> hosted_values(const Bundle& bundle);

/// Returns all rule violations of the bundle at `path`; empty if it is valid. verify_bundle.cc lists the rules (B1…).
/// The rules of a stage's files are judged for hosted stages: other files may be absent. The engine that loads a
/// stage checks B8 and B10.
std::vector<Diagnostic> verify_bundle(const std::string& path, const HostedStages& hosted = {});

/// Verifies and opens the bundle at `path`.
Result<Bundle> open_bundle(const std::string& path, const HostedStages& hosted = {});

/// A bundle of form `native` whose stages may have to be compiled again.
struct StaleBundle {
  Bundle bundle;                  ///< verified but for what `stale` reports; without `compiled` if that is at fault
  std::vector<Diagnostic> stale;  ///< faults of sources, compiled stages, executables and the record `compiled`
  bool has_executables = false;
};

/// Opens a bundle for `rannc-compile --rebuild`. Errors: all faults that compiling its stages again does not mend; the
/// form is not `native`.
Result<StaleBundle> open_to_rebuild(const std::string& path);

/// What to do about files that `open_to_rebuild` tolerates.
std::string rebuild_advice(const std::string& bundle);

/// Writes `manifest.json`: version, form, libraries, and the size and digest of every other file of the bundle. Call it
/// after all other files are written. Lists `kStateFile` and the stages' executables if they exist. `compiled`: how the
/// stages of form `native` were compiled; nothing: the form is `interpreted`.
Result<void> write_manifest(const std::string& folder, const ir::Plan& plan, const std::vector<Library>& libraries = {},
                            const std::optional<Compilation>& compiled = {});

/// Returns a 128-bit hash of a file's bytes as 32 hexadecimal digits.
Result<std::string> file_digest(const std::string& path);

}  // namespace rannc::runtime
