/// References by initializers of an ONNX file, read as those of the module that it was exported from.
#pragma once

#include "ir/base/diagnostic.h"
#include "tools/check/reference.h"

namespace rannc::tools {

/// What the card says of inputs and outputs, as `--input` and `--output-name` have it, goes into `inputs` and
/// `output_names`. An error names the card and what is malformed.
Result<void> read_signature(CheckFolder& folder);

/// Names references after the parameters of the module that they are of, and says in `layouts` how they lie there: as
/// in the initializer that the card names, or as in the module where the folder has them by names of `state_dict`.
/// Numbers of the ONNX file itself go (`file64`, and how far it is off), and all that the folder says of its
/// initializers. A parameter without a gradient in PyTorch is known, but not asked for.
Result<void> name_by_module(CheckFolder& folder);

/// Gradients under the names of the folder's references and in their layout. What has no reference keeps its name.
OwnNumbers laid_out(const CheckFolder& folder, const OwnNumbers& own);

}  // namespace rannc::tools
