/// The files of a request, each of which is parsed once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/read_model.h"
#include "ir/base/batching.h"
#include "passes/pipeline.h"
#include "tools/compiler/compiler.h"

namespace rannc::tools {

/// Files in the form from which every attempt to compile the model starts.
struct ModelFiles {
  frontend::ParsedModel model;
  std::optional<Result<frontend::ParsedModel>> loss;  ///< the file of `--loss-graph`, if one is requested
  std::vector<std::string> required;                  ///< `ImportOptions::required`
  passes::PipelineOptions pipeline;                   ///< those of the request, with the tensors of the weights file
};

/// Parses the files. A loss that cannot be parsed is an error of `import_loss` only.
Result<ModelFiles> parse_files(const RequestedModel& request);

/// Imports the model. Stores facts of the file in `pipeline` and notes for the user in `model`.
Result<ir::Graph> import_model(const RequestedModel& request, const ModelFiles& files, const Batching& batching,
                               passes::PipelineOptions& pipeline, PreparedModel& model);

/// Returns the digest of an imported model: of its form and the numbers in its code (`ir::print_form`), then of its
/// constants, which no checkpoint has. A file with other trained weights and buffers, or other numbers that nothing
/// reads, has the same. `pipeline` decides what is a constant.
Result<std::string> model_digest(const ir::Graph& imported, const passes::PipelineOptions& pipeline);
/// Whether models of these digests have the same form.
bool have_same_form(std::string_view a, std::string_view b);

/// Joins the file of a loss, if there is one, to the model's graph. Its tensors are not part of the model's state.
Result<void> import_loss(const RequestedModel& request, const ModelFiles& files, const Batching& batching,
                         ir::Graph& graph, passes::PipelineOptions& pipeline, PreparedModel& model);

}  // namespace rannc::tools
