#include "tools/measure/block_runs.h"

#include <algorithm>
#include <map>

#include "ir/plan/plan.h"
#include "partition/model/program_key.h"

namespace rannc::tools {

namespace {

constexpr size_t kLeastAtoms = 16;
constexpr size_t kMostAtoms = 64;

/// Number of values, by atom, that are produced up to it and read after it.
std::vector<int64_t> crossing_values(const ir::Graph& graph, const ir::Atoms& atoms) {
  std::vector<int64_t> change(atoms.tasks.size() + 1, 0);
  for (size_t atom = 0; atom < atoms.tasks.size(); ++atom) {
    for (const ValueId output : graph.outputs(atoms.tasks[atom])) {
      size_t last = atom;
      graph.for_each_use(output, [&](ir::Graph::Use use) {
        const AtomId reader = atoms.atom_of[use.task.index()];
        if (reader.valid()) last = std::max<size_t>(last, reader.index());
      });
      ++change[atom];
      --change[last];
    }
  }
  for (size_t atom = 1; atom < change.size(); ++atom) change[atom] += change[atom - 1];
  return change;
}

/// One past the last atom of the run that starts at `begin`.
size_t end_of_run(const std::vector<int64_t>& crossing, size_t begin, size_t atoms) {
  if (atoms - begin <= kLeastAtoms) return atoms;
  size_t best = begin + kLeastAtoms;
  for (size_t end = best; end <= std::min(atoms, begin + kMostAtoms); ++end) {
    if (crossing[end - 1] < crossing[best - 1]) best = end;
  }
  return best;
}

}  // namespace

std::vector<BlockRun> block_runs(const ir::Graph& graph, const ir::Atoms& atoms) {
  const auto roles = ir::gradient_roles(graph, ir::needs_gradient(graph));
  const std::vector<int64_t> crossing = crossing_values(graph, atoms);
  std::vector<BlockRun> runs;
  std::map<std::string, size_t> index;
  for (size_t begin = 0; begin < atoms.tasks.size();) {
    const size_t end = end_of_run(crossing, begin, atoms.tasks.size());
    const auto first = atoms.tasks.begin() + static_cast<ptrdiff_t>(begin);
    const auto last = atoms.tasks.begin() + static_cast<ptrdiff_t>(end);
    BlockRun run;
    run.tasks = ir::close_over_constants(graph, atoms, {first, last});
    run.key = partition::program_key(graph, atoms, run.tasks, roles);
    const auto [known, fresh] = index.emplace(run.key, runs.size());
    if (fresh) runs.push_back(std::move(run));
    ++runs[known->second].count;
    begin = end;
  }
  std::stable_sort(runs.begin(), runs.end(), [](const BlockRun& a, const BlockRun& b) {
    return a.count * a.tasks.size() > b.count * b.tasks.size();
  });
  return runs;
}

}  // namespace rannc::tools
