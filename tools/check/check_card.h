/// Reads the contents of a check folder's card.
#pragma once

#include "ir/base/diagnostic.h"
#include "tools/check/reference.h"

namespace rannc::tools {

/// Reads losses, stored tensors and the file's deviation from the reference from card.json into `folder`. An error
/// names the card and the malformed field.
Result<void> read_card(CheckFolder& folder);

}  // namespace rannc::tools
