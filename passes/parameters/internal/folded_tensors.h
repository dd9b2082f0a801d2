/// Tells of tensors that an exporter computed from parameters.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "passes/parameters/internal/parameter_roles.h"
#include "passes/parameters/internal/recomputed_tensors.h"
#include "passes/parameters/recover_parameters.h"
#include "passes/pass.h"

namespace rannc::passes {

/// A warning with `'div' for 'conv.weight_orig'` of each tensor that is trained though the file has lost what it was
/// computed from. Kinds must have been decided.
void report_stand_ins(const ir::Graph& graph, const StoredFacts& known, PassContext& context);

/// Warnings where merged parameters are allowed, else an error with them as notes; nothing where there are none.
Result<void> warn_or_refuse(std::vector<Note> found, StoredFacts::Merged allowed, std::string refusal,
                            PassContext& context);

void report_recomputed(const Recomputed& found, PassContext& context);

/// Tensors that follow from parameters of the file in a way that is not known: refused where merged parameters are.
/// Those of a kind that was asked for, and those that no gradient reaches, are left out.
Result<void> report_not_recomputed(const ir::Graph& graph, const std::vector<Recomputed::Open>& open,
                                   const std::map<ValueId, ir::ValueKind>& asked, const std::vector<Roles>& roles,
                                   StoredFacts::Merged allowed, PassContext& context);

}  // namespace rannc::passes
