/// What the card of a check folder says.
#pragma once

#include "ir/base/diagnostic.h"
#include "tools/check/reference.h"

namespace rannc::tools {

/// Takes over what card.json in the folder says of losses, stored tensors and how far the file is off. An error names
/// the card and the field that is malformed.
Result<void> read_card(CheckFolder& folder);

}  // namespace rannc::tools
