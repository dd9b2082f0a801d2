/// Puts back what an exporter computed of stored tensors that its file has as well.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/state/stored_notes.h"

namespace rannc::passes {

/// torch.onnx.export with dynamo=False carries out what it can of a program's computations on its
/// state, and stores the results under names of its own. A parameter that is read as it is and computed on, too, is
/// then two tensors that training would part.
///
/// Before => after: a tensor of a made-up name whose numbers follow from one other tensor that the same module reads
/// (`copy_forms.h`), in one way, is computed from that tensor, by tasks without a node;
/// not where the file says of which parameter it is. A name that the tensor has by its place in a module alone
/// (`fc.weight`) gives way to a view: the module has that tensor under another name.
struct ComputedCopies {
  bool changed = false;
  std::vector<std::string> found;        ///< what was put back, as `'onnx::Neg_3' is 'gate': it, negated`
  std::set<std::string> gone;            ///< names of what is computed again
  std::vector<std::string> by_a_number;  ///< those of them that one number alone speaks for
};

/// Tensors named in `kept` stay. Reads the bytes of tensors of made-up names, and of those that the modules which read
/// them read as well.
ComputedCopies put_back_copies(ir::Graph& graph, const ir::StoredNotes& file, const std::set<std::string>& kept);

/// Names of tensors of the file that tasks make now, of those tasks that are left.
std::set<std::string> copies_in(const ir::Graph& graph, const ir::StoredNotes& file);

}  // namespace rannc::passes
