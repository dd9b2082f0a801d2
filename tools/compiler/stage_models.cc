#include "tools/compiler/stage_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "frontend/onnx/cut_stages.h"
#include "frontend/read_model.h"
#include "ir/base/replacement.h"
#include "runtime/bundle/bundle.h"
#include "tools/compiler/model_files.h"

namespace rannc::tools {

namespace fs = std::filesystem;

namespace {

/// A folder inside another, removed by the destructor.
class InnerFolder {
 public:
  explicit InnerFolder(fs::path path) : path_(std::move(path)) {}
  ~InnerFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  InnerFolder(const InnerFolder&) = delete;
  InnerFolder& operator=(const InnerFolder&) = delete;
  Result<fs::path> create() const {
    std::error_code failed;
    if (fs::create_directory(path_, failed)) return path_;
    return error({path_.string(), 0, 0, {}}, "cannot be created: " + failed.message());
  }

 private:
  fs::path path_;
};

std::string first_names(std::vector<std::string> names) {
  constexpr size_t kMost = 6;
  const size_t count = names.size();
  names.resize(std::min(count, kMost));
  const std::string text = fmt::format("{}", fmt::join(names, ", "));
  return count > kMost ? fmt::format("{} and {} more", text, count - kMost) : text;
}

std::string line_of(size_t stage, const frontend::StageModel& model, const std::string& file) {
  if (model.file.empty()) return fmt::format("stage {} has no ONNX file: no node of {} belongs to it", stage, file);
  std::vector<std::string> unsent;
  for (const frontend::UnsentValue& value : model.unsent)
    unsent.push_back(value.in_file ? value.name : value.name + " (no tensor of the file)");
  if (unsent.empty()) {
    return fmt::format("{} also receives {}, which the plan computes in the stage or does not need", model.file,
                       first_names(model.added));
  }
  if (model.added.empty())
    return fmt::format("{} does not receive {}, which the plan sends", model.file, first_names(unsent));
  return fmt::format("{} receives {} instead of {}, which the plan sends", model.file, first_names(model.added),
                     first_names(unsent));
}

frontend::WantedCut wanted_cut(const ir::Plan& plan) {
  frontend::WantedCut cut{plan.graph, static_cast<uint32_t>(plan.stages.size()), ir::stage_of_tasks(plan), {}};
  for (const ir::Route& route : plan.routes) cut.sent.push_back({route.value, route.from, route.to});
  return cut;
}

/// Errors unless nothing is at `to`, or, with `replace`, a folder of stage files alone.
Result<void> check_folder(const std::string& to, bool replace) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(to, ignored))) return {};
  if (!replace) return error({to, 0, 0, {}}, "exists already; use --replace to overwrite it");
  if (!fs::is_directory(to, ignored)) return error({to, 0, 0, {}}, "is not a folder; it is not replaced");
  for (const auto& entry : fs::directory_iterator(to, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool of_stage = name.starts_with("stage") && (name.ends_with(".onnx") || name.ends_with(".onnx.data"));
    if (!of_stage)
      return error({to, 0, 0, {}}, fmt::format("contains {}, which is no file of a stage; it is not replaced", name));
  }
  return {};
}

}  // namespace

Result<void> check_onnx(const std::string& model) {
  if (frontend::model_format(model) == frontend::ModelFormat::kOnnx) return {};
  return error({model, 0, 0, {}}, "is not an ONNX file; stages can be cut only from ONNX files");
}

Result<StageModelLines> write_stage_models(const std::string& path, const compiler::ReadOptions& options,
                                           const ir::Plan& plan, const std::string& folder) {
  RANNC_TRY(check_onnx(path));
  StageModelLines lines;
  fs::path model = path;
  const InnerFolder copies(fs::path(folder) / "weights.tmp");
  if (!options.weights.empty()) {
    RANNC_ASSIGN(const fs::path inner, copies.create());
    model = inner / "model.onnx";
    RANNC_ASSIGN(lines.weights, copy_with_weights(path, options, model.string(), false));
    std::erase_if(lines.weights,
                  [&](const std::string& line) { return line.find(model.string()) != std::string::npos; });
  }
  RANNC_ASSIGN(const auto stages, frontend::cut_stages(model, wanted_cut(plan), folder));
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const frontend::StageModel& each = stages[stage];
    if (each.file.empty() || !each.unsent.empty() || !each.added.empty())
      lines.cut.push_back(line_of(stage, each, path));
  }
  return lines;
}

Result<StageModelLines> write_stages_of_bundle(const std::string& path, const compiler::ReadOptions& options,
                                               const std::string& bundle, const std::string& to, bool replace) {
  RANNC_TRY(check_onnx(path));
  RANNC_TRY(check_folder(to, replace));
  RANNC_ASSIGN(const runtime::Bundle opened, runtime::open_bundle(bundle));
  RANNC_ASSIGN(const RequestedModel request, requested_model(path, options));
  RANNC_ASSIGN(const ModelFiles files, parse_files(request));
  passes::PipelineOptions pipeline = files.pipeline;
  PreparedModel read;
  RANNC_ASSIGN(const ir::Graph imported, import_model(request, files, {}, pipeline, read));
  RANNC_ASSIGN(const std::string digest, model_digest(imported, pipeline));
  if (!have_same_form(digest, opened.plan.model_digest))
    return error({path, 0, 0, {}}, fmt::format("is not the model that {} was compiled from", bundle))
        .note("give the original model, and other weights with --weights");
  Replacement folder(to);
  std::error_code failed;
  fs::remove_all(folder.temporary(), failed);
  if (!fs::create_directory(folder.temporary(), failed))
    return error({to, 0, 0, {}}, "cannot be created: " + failed.message());
  RANNC_ASSIGN(StageModelLines lines, write_stage_models(path, options, opened.plan, folder.temporary()));
  RANNC_TRY(folder.commit());
  return lines;
}

}  // namespace rannc::tools
