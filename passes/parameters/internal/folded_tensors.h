/// Reports tensors that an exporter computed from parameters.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "passes/parameters/internal/parameter_roles.h"
#include "passes/parameters/internal/recomputed_tensors.h"
#include "passes/parameters/recover_parameters.h"
#include "passes/pass.h"

namespace rannc::passes {

/// Adds a warning with `'div' for 'conv.weight_orig'` for each tensor that is trained although the file lost what it
/// was computed from. Kinds must have been decided.
void report_stand_ins(const ir::Graph& graph, const StoredFacts& known, PassContext& context);

/// Adds warnings if merged parameters are allowed; otherwise returns an error with the findings as notes. Does nothing
/// without findings.
Result<void> warn_or_refuse(std::vector<Note> found, StoredFacts::Merged allowed, std::string refusal,
                            PassContext& context);

void report_recomputed(const Recomputed& found, PassContext& context);

/// Reports tensors that follow from the file's parameters in an unknown way; an error if merged parameters are refused.
/// Tensors of a kind that was specified, and those that no gradient reaches, are omitted.
Result<void> report_not_recomputed(const ir::Graph& graph, const std::vector<Recomputed::Open>& open,
                                   const std::map<ValueId, ir::ValueKind>& asked, const std::vector<Roles>& roles,
                                   StoredFacts::Merged allowed, PassContext& context);

}  // namespace rannc::passes
