/// Folding rules of the operators' entries, one function per operator, named after it. Private to ir/op.
///
/// Results equal those of the lowered calls. Arithmetic wraps as 64-bit integers do. `ir/op/fold.h` has the contract.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/op/fold.h"

namespace rannc::ir::ops::fold {

using Numbers = std::vector<int64_t>;

// --- fold_elementwise.cc
Numbers add(FoldCall& call);
Numbers sub(FoldCall& call);
Numbers mul(FoldCall& call);
Numbers div(FoldCall& call);   ///< fails on division by zero; the lowest number by -1 wraps
Numbers mod(FoldCall& call);   ///< has the divisor's sign; fails on division by zero
Numbers fmod(FoldCall& call);  ///< has the dividend's sign; fails on division by zero
Numbers pow(FoldCall& call);   ///< fails for negative exponents, for booleans and for two types
Numbers maximum(FoldCall& call);
Numbers minimum(FoldCall& call);
Numbers eq(FoldCall& call);
Numbers ne(FoldCall& call);
Numbers lt(FoldCall& call);
Numbers le(FoldCall& call);
Numbers gt(FoldCall& call);
Numbers ge(FoldCall& call);
Numbers logical_and(FoldCall& call);
Numbers logical_or(FoldCall& call);
Numbers logical_xor(FoldCall& call);
Numbers bitwise_and(FoldCall& call);
Numbers bitwise_or(FoldCall& call);
Numbers bitwise_xor(FoldCall& call);
Numbers bitwise_not(FoldCall& call);
Numbers neg(FoldCall& call);
Numbers abs(FoldCall& call);
Numbers relu(FoldCall& call);
Numbers sign(FoldCall& call);
Numbers logical_not(FoldCall& call);
Numbers identity(FoldCall& call);
Numbers clamp(FoldCall& call);
Numbers cast(FoldCall& call);
Numbers where(FoldCall& call);

// --- fold_rearrange.cc
Numbers view(FoldCall& call);  ///< reshape, squeeze and unsqueeze: the elements keep their order
Numbers expand(FoldCall& call);
Numbers permute(FoldCall& call);
Numbers tile(FoldCall& call);
Numbers slice(FoldCall& call);
Numbers split(FoldCall& call);
Numbers concat(FoldCall& call);
Numbers pad(FoldCall& call);  ///< fails in modes other than "constant"

// --- fold_index.cc; fail on an index out of range, except one_hot
Numbers gather(FoldCall& call);
Numbers gather_nd(FoldCall& call);
Numbers gather_elements(FoldCall& call);
Numbers cumsum(FoldCall& call);
Numbers trilu(FoldCall& call);
Numbers one_hot(FoldCall& call);

// --- fold_scatter.cc; fail on an index out of range
Numbers scatter_elements(FoldCall& call);
Numbers scatter_nd(FoldCall& call);

// --- fold_reduce.cc; amax, amin and argmax fail on no elements
Numbers sum(FoldCall& call);
Numbers prod(FoldCall& call);
Numbers amax(FoldCall& call);
Numbers amin(FoldCall& call);
Numbers argmax(FoldCall& call);  ///< the first of several

}  // namespace rannc::ir::ops::fold
