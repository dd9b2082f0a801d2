// Verifies the rules of a bundle on disk.
//
// The rules about a stage's files are judged for the stages that the process hosts.
//
// B1  the folder exists and holds the plan, the manifest, and the files of hosted stages
// B2  the manifest is a JSON object of format `rannc.bundle` and a version that this build reads. That of form `native`
//     records how the stages were compiled
// B3  the manifest lists exactly the bundle's files; those of hosted stages have the size and digest that it says
// B4  the plan parses, verifies (rules G, P, S) and has the number of stages in the manifest
// B5  a stage's weights contain every parameter, buffer and constant of its program, under the model's name
// B6  weights have the element types and shapes of the plan
// B7  a stage's weights contain nothing that its program does not use
// B8  every kernel that the plan has chosen runs on the hardware (checked by the engine that loads the stage)
// B9  `state.safetensors` contains the state that no stage reads, as in the plan; it exists only if there is any. Of
//     several processes, that of device 0 needs it
// B10 a compiled stage belongs to the plan, this build of rannc and this LibTorch (checked by the engine that loads it)
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "ir/base/replacement.h"
#include "ir/text/text.h"
#include "ir/verify.h"
#include "runtime/bundle/bundle.h"
#include "runtime/bundle/internal/bundle_files.h"
#include "runtime/bundle/internal/compilation_json.h"
#include "runtime/internal/json_fields.h"

namespace rannc::runtime {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostStages = 1'000'000;

class BundleVerifier {
 public:
  /// `stale`: receives faults that compiling the stages again mends; null: they are faults of the bundle.
  BundleVerifier(const std::string& path, const HostedStages& hosted, std::vector<Diagnostic>* stale = nullptr)
      : path_(path), hosted_(hosted), stale_(stale) {}

  /// Later rules use the results of earlier ones, so each step requires the previous one.
  std::vector<Diagnostic> verify(std::optional<Bundle>& bundle) {
    const bool opened =
        check_folder() && check_manifest() && check_listing() && check_plan() && check_files() && check_weights();
    if (opened) bundle = std::move(bundle_);
    return std::move(found_);
  }
  /// After `verify`.
  bool has_executables() const { return lists(executable_file(StageId(0))); }

 private:
  void fail(const std::string& file, std::string message, const char* rule, std::string node = {}) {
    found_.push_back(error({.file = file, .node = std::move(node)}, std::move(message), rule));
  }
  /// Reports a fault that compiling the stages again mends.
  void fail_compiled(Diagnostic fault) {
    (stale_ != nullptr ? *stale_ : found_).push_back(std::move(fault).note(rebuild_advice(path_)));
  }
  void fail_file(const std::string& name, std::string message, const char* rule) {
    Diagnostic fault = error({.file = at(name)}, std::move(message), rule);
    if (is_compiled(name, bundle_.form)) return fail_compiled(std::move(fault));
    found_.push_back(std::move(fault));
  }
  std::string at(const std::string& name) const { return path_ + "/" + name; }

  bool check_folder() {
    std::error_code ignored;
    if (!std::filesystem::is_directory(path_, ignored)) {
      fail(path_, "no such bundle: a bundle is a folder", "B1");
      return false;
    }
    for (const char* name : {kManifestFile, kPlanFile}) {
      if (!std::filesystem::is_regular_file(at(name), ignored)) fail(at(name), "file is missing", "B1");
    }
    return found_.empty();
  }

  bool check_manifest() {
    const std::string file = at(kManifestFile);
    const Result<Json> read = read_json_file(file);
    std::string fault;
    if (!read.ok()) {
      found_.push_back(read.diagnostic());
      found_.back().rule = "B2";
    } else if (read->value("format", Json()) != "rannc.bundle") {
      fail(file, "not the manifest of a bundle: expected a JSON object with format `rannc.bundle`", "B2");
    } else if (read->value("version", Json()) != kBundleVersion) {
      fail(file,
           fmt::format("bundle version {}; this build reads version {}", excerpt(read->value("version", Json())),
                       kBundleVersion),
           "B2");
    } else {
      read_fields(*read, fault);
      if (!fault.empty()) fail(file, fault, "B2");
      if (found_.empty() && bundle_.form == BundleForm::kNative) check_compilation(file, *read);
    }
    return found_.empty();
  }

  // Bundles of older versions have neither form nor libraries.
  void read_fields(const Json& manifest, std::string& fault) {
    JsonFields fields(manifest, "", fault);
    fields.read("stages", stages_, WholeRange{1, kMostStages});
    std::string form(str(bundle_.form));
    fields.read_if_present("form", form);
    if (const auto known = parse_bundle_form(form)) {
      bundle_.form = *known;
    } else {
      fields.fail("form", form, "interpreted or native");
    }
    JsonFields files = fields.object("files");
    const Json listed_files = manifest.value("files", Json());
    for (const auto& [name, entry] : listed_files.items()) {
      JsonFields of_file(entry, files.place(name), fault);
      BundleFile& listed = listed_[name];
      listed.name = name;
      of_file.read("bytes", listed.bytes, WholeRange{0, INT64_MAX});
      of_file.read("digest", listed.digest);
    }
    if (!manifest.contains("libraries")) return;
    for (JsonFields& library : fields.objects("libraries")) {
      Library& needed = bundle_.libraries.emplace_back();
      library.read("path", needed.path);
      library.read("digest", needed.digest);
    }
  }

  void check_compilation(const std::string& file, const Json& manifest) {
    Result<Compilation> compiled = parse_compilation(manifest);
    if (!compiled.ok()) return fail_compiled(error({.file = file}, compiled.diagnostic().message, "B2"));
    bundle_.compiled = *std::move(compiled);
  }

  static std::string excerpt(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 40);
  }

  bool lists(const std::string& name) const { return listed_.contains(name); }

  /// Returns the files that the bundle must have for a stage. What the first stage has, all have, except model files.
  std::vector<std::string> files_of(StageId stage) const {
    std::vector<std::string> names = stage_files(stage, bundle_.form);
    const std::vector<std::string> of_first = optional_stage_files(StageId(0)), optional = optional_stage_files(stage);
    for (size_t kind = 0; kind < optional.size(); ++kind) {
      if (lists(of_first[kind])) names.push_back(optional[kind]);
    }
    for (std::string& name : model_files(stage)) {
      if (lists(name)) names.push_back(std::move(name));
    }
    return names;
  }

  bool check_listing() {
    if (stages_ > listed_.size()) {  // before names are made for them
      fail(at(kManifestFile), fmt::format("has {} stages, but lists {} files", stages_, listed_.size()), "B3");
      return false;
    }
    std::set<std::string> expected = {kPlanFile};
    if (lists(kStateFile)) expected.emplace(kStateFile);
    for (size_t stage = 0; stage < stages_; ++stage) {
      for (std::string& name : files_of(StageId::from(stage))) expected.insert(std::move(name));
    }
    for (const auto& [name, unused] : listed_) {
      if (!expected.contains(name))
        fail(at(kManifestFile), "lists a file that does not belong to a bundle", "B3", name);
    }
    for (const std::string& name : expected) {
      if (!lists(name)) fail(at(kManifestFile), "lacks `bytes` or `digest` of this file", "B3", name);
    }
    if (found_.empty()) check_file(kPlanFile, {});
    return found_.empty();
  }

  bool check_files() {
    const size_t stages = bundle_.plan.stages.size();
    for (size_t stage = 0; stage < stages; ++stage) {
      if (!hosted_.contains(bundle_.plan, StageId::from(stage))) continue;
      const std::string user =
          hosted_.device ? fmt::format("device {} runs stage {}", hosted_.device->index(), stage) : "";
      for (const std::string& name : files_of(StageId::from(stage))) check_file(name, user);
    }
    if (lists(kStateFile) && hosted_.need_state())
      check_file(kStateFile, hosted_.device ? "device 0 needs it to export weights" : "");
    return found_.empty();
  }

  /// `user`: why the file is needed; empty if every bundle needs it.
  void check_file(const std::string& name, const std::string& user) {
    std::error_code failed;
    if (!std::filesystem::is_regular_file(at(name), failed))
      return fail_file(name, user.empty() ? "file is missing" : "file is missing: " + user, "B1");
    const BundleFile& listed = listed_.at(name);
    const uint64_t bytes = std::filesystem::file_size(at(name), failed);
    if (listed.bytes != bytes)
      return fail_file(name, fmt::format("has {} bytes; the manifest has {}", bytes, listed.bytes), "B3");
    const Result<std::string> digest = file_digest(at(name));
    if (!digest.ok()) return found_.push_back(digest.diagnostic());
    if (listed.digest != *digest)
      return fail_file(name, fmt::format("has digest {}; the manifest has {}", *digest, listed.digest), "B3");
    bundle_.files.push_back(listed);
  }

  bool check_plan() {
    const Result<std::string> text = read_file(at(kPlanFile));
    Result<ir::Plan> plan = text.ok() ? ir::parse_plan(*text, at(kPlanFile)) : text.diagnostic();
    if (!plan.ok()) {
      Diagnostic problem = plan.diagnostic();
      if (problem.rule.empty()) problem.rule = "B4";
      found_.push_back(std::move(problem));
      return false;
    }
    if (plan->stages.size() != stages_)
      fail(at(kPlanFile), fmt::format("has {} stages; the manifest has {}", plan->stages.size(), stages_), "B4");
    bundle_.path = path_;
    bundle_.hosted = hosted_;
    bundle_.plan = *std::move(plan);
    return found_.empty();
  }

  bool check_weights() {
    for (size_t i = 0; i < bundle_.plan.stages.size(); ++i) {
      const auto stage = StageId::from(i);
      bundle_.signatures.push_back(signature(bundle_.plan, stage));
      if (!hosted_.contains(bundle_.plan, stage)) {
        bundle_.weights.emplace_back();
        continue;
      }
      Result<SafetensorsFile> file = SafetensorsFile::open(at(weights_file(stage)));
      if (!file.ok()) {
        found_.push_back(file.diagnostic());
        found_.back().rule = "B5";
        continue;
      }
      check_stage(bundle_.signatures.back(), *file);
      bundle_.weights.push_back(*std::move(file));
    }
    check_state();
    return found_.empty();
  }

  void check_state() {
    const std::vector<ValueId> unread = unread_state(bundle_.plan);
    const bool listed = lists(kStateFile);
    if (unread.empty() && listed)
      return fail(at(kStateFile), "file is unexpected: every value of the state is in a stage's file", "B9");
    if (unread.empty()) return;
    const ir::Graph& graph = bundle_.plan.graph;
    if (!listed)
      return fail(at(kStateFile), "file is missing; it must contain this value, which no stage reads", "B9",
                  std::string(graph.value(unread[0]).name));
    if (!hosted_.need_state()) return;
    const Result<SafetensorsFile> file = SafetensorsFile::open(at(kStateFile));
    if (!file.ok()) {
      found_.push_back(file.diagnostic());
      found_.back().rule = "B9";
      return;
    }
    std::set<std::string> names;
    for (const ValueId value : unread) {
      names.emplace(graph.value(value).name);
      check_weight({value, std::string(graph.value(value).name), graph.type(value)}, *file, "B9", "B9");
    }
    for (const auto& entry : file->entries()) {
      if (!names.contains(entry.name))
        fail(file->path(), "is read by a stage or does not belong to the state", "B9", entry.name);
    }
  }

  void check_stage(const Signature& signature, const SafetensorsFile& file) {
    std::set<std::string> taken;
    for (const auto* group : {&signature.parameters, &signature.buffers, &signature.constants}) {
      for (const Weight& weight : *group) {
        taken.insert(weight.name);
        check_weight(weight, file, "B5", "B6");
      }
    }
    for (const auto& entry : file.entries()) {
      if (!taken.contains(entry.name))
        fail(file.path(), "the stage's program does not use this tensor", "B7", entry.name);
    }
  }

  void check_weight(const Weight& weight, const SafetensorsFile& file, const char* presence, const char* type) {
    const auto* entry = file.find(weight.name);
    if (entry == nullptr) return fail(file.path(), "tensor is missing", presence, weight.name);
    ir::Shape found;
    for (int64_t extent : entry->spec.shape) found.emplace_back(extent);
    if (entry->spec.dtype == weight.type.dtype && weight.type.shape && found == *weight.type.shape) return;
    fail(file.path(),
         fmt::format("is {}{}; the plan expects {}{}", ir::str(entry->spec.dtype), ir::str(found),
                     ir::str(weight.type.dtype), weight.type.shape ? ir::str(*weight.type.shape) : "[?]"),
         type, weight.name);
  }

  const std::string& path_;
  const HostedStages& hosted_;
  std::vector<Diagnostic>* const stale_;
  uint64_t stages_ = 0;
  std::map<std::string, BundleFile> listed_;  // of the manifest, by name
  Bundle bundle_;
  std::vector<Diagnostic> found_;
};

}  // namespace

std::vector<Diagnostic> verify_bundle(const std::string& path, const HostedStages& hosted) {
  std::optional<Bundle> bundle;
  return BundleVerifier(path, hosted).verify(bundle);
}

Result<Bundle> open_bundle(const std::string& path, const HostedStages& hosted) {
  std::optional<Bundle> bundle;
  RANNC_TRY(ir::as_result(BundleVerifier(path, hosted).verify(bundle)));
  RANNC_CHECK(bundle.has_value()) << "a bundle without faults opens";
  return *std::move(bundle);
}

Result<StaleBundle> open_to_rebuild(const std::string& path) {
  StaleBundle opened;
  std::optional<Bundle> bundle;
  const HostedStages all;
  BundleVerifier verifier(path, all, &opened.stale);
  std::vector<Diagnostic> faults = verifier.verify(bundle);
  if (!faults.empty() && faults[0].rule == "B1" && std::filesystem::is_directory(path)) {
    faults[0].notes.push_back(
        {{}, "the files of all stages are needed: rebuild the whole bundle, and copy those of a host from there"});
  }
  RANNC_TRY(ir::as_result(std::move(faults)));
  RANNC_CHECK(bundle.has_value()) << "a bundle without faults opens";
  if (bundle->form != BundleForm::kNative) {
    return error({.file = path}, fmt::format("has form {}, which has no compiled stages", str(bundle->form)))
        .note("compile the model with --form native");
  }
  opened.bundle = *std::move(bundle);
  opened.has_executables = verifier.has_executables();
  return opened;
}

}  // namespace rannc::runtime
