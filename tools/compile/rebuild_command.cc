#include "tools/compile/rebuild_command.h"

#include <fmt/format.h>

#include "codegen/bundle_rebuild.h"
#include "ir/base/output_lock.h"
#include "runtime/bundle/libraries.h"
#include "runtime/engine/compiled_stage_facts.h"
#include "tools/common/launcher.h"
#include "tools/common/status_line.h"
#include "tools/compile/native_form.h"

namespace rannc::tools {

namespace {

Result<std::map<std::string, std::string>> load(const std::string& compiled) {
  RANNC_ASSIGN(runtime::CompiledStageFacts facts, runtime::compiled_stage_facts(compiled));
  return std::move(facts.fingerprints);
}

}  // namespace

Result<void> rebuild(const std::string& bundle, const std::string& cxx, const std::vector<std::string>& libraries) {
  RANNC_ASSIGN(const OutputLock lock, OutputLock::take_beside(bundle, "rannc-compile"));
  RANNC_ASSIGN(const FoundCompiler found, find_compiler(cxx));
  RANNC_ASSIGN(codegen::NativeCompiler compiler, codegen::NativeCompiler::open(found.path, found.cache));
  StatusLine status;
  codegen::RebuildOptions options{.form = {.compiler = std::move(compiler)},
                                  .stage_program = program_beside("rannc-stage"),
                                  .same_compiler = !cxx.empty(),
                                  .load = load};
  size_t stages = 0;
  options.form.progress = [&](size_t done) { status.show(fmt::format("compiling stages: {} of {}", done, stages)); };
  options.prepare = [&](const runtime::Bundle& opened) {
    stages = opened.plan.stages.size();
    return runtime::load_libraries(opened, libraries);
  };
  const auto stale = codegen::rebuild_bundle(bundle, options);
  status.clear();
  if (!stale.ok()) return stale.diagnostic();
  for (const std::string& reason : *stale) fmt::print(stderr, "stale: {}\n", reason);
  if (stale->empty()) {
    fmt::print("nothing of {} is stale\n", bundle);
  } else {
    fmt::print("rebuilt {}\n", bundle);
  }
  return {};
}

}  // namespace rannc::tools
