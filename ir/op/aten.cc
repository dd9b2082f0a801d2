// Defines the body of a branch or a loop of a lowering.
//
// Inline, these functions would have every file that includes operators compile the comparison of all arguments.
#include "ir/op/aten.h"

namespace rannc::ir::aten {

Block::Block(Lowering lowering) : lowering_(std::make_shared<const Lowering>(std::move(lowering))) {}
bool Block::operator==(const Block& other) const { return *lowering_ == *other.lowering_; }

}  // namespace rannc::ir::aten
