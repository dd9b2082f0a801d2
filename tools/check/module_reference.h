/// Converts references of an ONNX file's initializers to those of the original module's parameters.
#pragma once

#include "ir/base/diagnostic.h"
#include "tools/check/reference.h"

namespace rannc::tools {

/// Reads the card's inputs and outputs into `inputs` and `output_names`, spelled as for `--input` and `--output-name`.
/// An error names the card and the malformed field.
Result<void> read_signature(CheckFolder& folder);

/// Renames references to the parameters of the original module and records their layouts in `layouts`: the layout of
/// the initializer that the card names, or that of the module if the folder has references by `state_dict` names.
/// Removes the numbers of the ONNX file itself (`file64` and its deviation) and all data about its initializers. A
/// parameter without a gradient in PyTorch is known but not expected.
Result<void> name_by_module(CheckFolder& folder);

/// Returns gradients under the names and in the layouts of the folder's references. Gradients without a reference keep
/// their names.
OwnNumbers laid_out(const CheckFolder& folder, const OwnNumbers& own);

}  // namespace rannc::tools
