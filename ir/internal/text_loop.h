/// Reader of loop statements.
#pragma once

#include "ir/internal/text_cursor.h"
#include "ir/op/loop.h"

namespace rannc::ir {

/// Reads `{row_sum x0; each y0 (sub x0 s0)}`.
Result<LoopBody> read_loop_body(TextCursor& cursor);

}  // namespace rannc::ir
