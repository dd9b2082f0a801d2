/// The manifest of a bundle never crashes its verifier, and lists what is accepted. The files that it is read with are
/// made here; `%stage0.cc.bytes%` and `%stage0.cc.digest%` in an input stand for those of a file.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "ir/base/replacement.h"
#include "ir/graph/constant.h"
#include "ir/text/text.h"
#include "runtime/bundle/bundle.h"
#include "tests/fuzz/target.h"
#include "tools/common/scratch.h"

namespace {

using namespace rannc;
using runtime::SafetensorsTensor;

/// A bundle with the programs of both forms.
class Files {
 public:
  Files() {
    const std::string text = read_file(RANNC_SOURCE_DIR "/tests/fuzz/seeds/plan.rir").value();
    const ir::Plan plan = ir::parse_plan(text, "plan.rir").value();
    write(runtime::kPlanFile, text);
    for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
      const auto id = StageId::from(stage);
      const runtime::Signature signature = runtime::signature(plan, id);
      std::vector<ValueId> weights;
      for (const auto* group : {&signature.parameters, &signature.buffers, &signature.constants}) {
        for (const runtime::Weight& weight : *group) weights.push_back(weight.value);
      }
      write(runtime::weights_file(id), plan, weights);
      for (const std::string& name : {runtime::source_file(id), runtime::compiled_file(id)}) write(name, name);
    }
    write(runtime::kStateFile, plan, runtime::unread_state(plan));
  }
  const std::string& folder() const { return scratch_.path(); }

  /// Writes the input with the facts of the files. The file stays open, so that the disk is not written every time.
  void set_manifest(std::string_view input) {
    std::string text(input);
    for (const auto& [name, fact] : facts_) {
      for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += fact.size())
        text.replace(at, name.size(), fact);
    }
    if (manifest_ == nullptr) manifest_.reset(std::fopen(path(runtime::kManifestFile).c_str(), "wb"));
    std::rewind(manifest_.get());
    std::fwrite(text.data(), 1, text.size(), manifest_.get());
    const bool written = std::fflush(manifest_.get()) == 0 && ftruncate(fileno(manifest_.get()), text.size()) == 0;
    RANNC_CHECK(written) << "the manifest is not written";
  }

 private:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(path(name), std::ios::binary) << text;
    add_facts(name);
  }
  void write(const std::string& name, const ir::Plan& plan, const std::vector<ValueId>& values) {
    std::vector<SafetensorsTensor> tensors;
    std::vector<std::vector<std::byte>> bytes;
    bytes.reserve(values.size());
    for (const ValueId value : values) {
      bytes.push_back(plan.graph.value(value).data.read().value());
      runtime::TensorSpec spec{.dtype = plan.graph.type(value).dtype, .shape = {}};
      for (const ir::Dim& dim : *plan.graph.type(value).shape) spec.shape.push_back(dim.constant());
      const std::span<const std::byte> content(bytes.back());
      tensors.push_back({std::string(plan.graph.value(value).name), spec,
                         [content]() -> Result<std::span<const std::byte>> { return content; }});
    }
    runtime::write_safetensors(path(name), std::move(tensors)).value();
    add_facts(name);
  }
  void add_facts(const std::string& name) {
    facts_["%" + name + ".bytes%"] = std::to_string(std::filesystem::file_size(path(name)));
    facts_["%" + name + ".digest%"] = runtime::file_digest(path(name)).value();
  }
  std::string path(const std::string& name) const { return folder() + "/" + name; }

  tools::Scratch scratch_;
  std::map<std::string, std::string> facts_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> manifest_{nullptr, &std::fclose};
};

}  // namespace

bool rannc::fuzz::feed(std::string_view input) {
  static Files files;
  files.set_manifest(input);
  const auto bundle = runtime::open_bundle(files.folder());
  if (!bundle.ok()) return false;
  RANNC_CHECK(bundle->signatures.size() == bundle->plan.stages.size()) << "a stage without a program";
  for (const runtime::BundleFile& file : bundle->files)
    RANNC_CHECK(file.bytes > 0 && file.digest.size() == 32) << file.name << " is not verified";
  RANNC_CHECK(bundle->compiled.has_value() == (bundle->form == runtime::BundleForm::kNative)) << "an unknown form";
  return true;
}
